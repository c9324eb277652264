"""The two-token example by hand, by arithmetic and by simulation; and on other distributions."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from specdec_jax.analysis import worked_example

distributions = st.lists(st.integers(0, 9), min_size=3, max_size=3).filter(any).map(
    lambda n: np.array(n) / sum(n))


def test_by_hand():
  """Token 0 is drafted 9 times in 10 and kept 5 times in 9; what is rejected becomes token 1."""
  o = worked_example.arithmetic((0.5, 0.5), (0.9, 0.1))
  np.testing.assert_allclose(o.accepted, [0.5, 0.1])
  np.testing.assert_allclose(o.corrected, [0, 0.4])
  np.testing.assert_allclose(o.distribution, [0.5, 0.5])
  assert o.acceptance == pytest.approx(0.6)


def test_by_simulation():
  exact = worked_example.arithmetic((0.5, 0.5), (0.9, 0.1))
  seen = worked_example.simulation((0.5, 0.5), (0.9, 0.1), 40_000)
  for part in ('accepted', 'corrected'):
    p = getattr(exact, part)
    assert np.all(np.abs(getattr(seen, part) - p) <= 4 * np.sqrt(p * (1 - p) / 40_000))
  assert seen.corrected[0] == 0 and seen.distribution.sum() == pytest.approx(1)


@given(distributions, distributions)
def test_what_comes_out_is_p(p, q):
  o = worked_example.arithmetic(p, q)
  np.testing.assert_allclose(o.distribution, p, atol=1e-12)
  assert o.acceptance == pytest.approx(np.minimum(p, q).sum())
