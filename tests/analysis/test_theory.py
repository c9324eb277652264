import numpy as np
import pytest
from hypothesis import given, strategies as st

from specdec_jax.analysis import theory
from specdec_jax.reports import paper


@pytest.mark.parametrize('row', paper.TABLE_1, ids=str)
def test_table_1_to_its_printed_digits(row):
  assert f'{theory.operations_increase(row.alpha, row.gamma, 0):.2f}' == f'{row.operations:.2f}'
  assert f'{theory.walltime_improvement(row.alpha, row.gamma, 0):.2f}' == f'{row.speed_up:.2f}'


@pytest.mark.parametrize('row', paper.TABLE_4, ids=str)
def test_table_4_expectations(row):
  # The paper rounds alpha to two digits first, so its own figure is reached to 0.1.
  assert theory.walltime_improvement(row.alpha, row.gamma, paper.C[row.draft]) == pytest.approx(
      row.predicted, abs=0.1)


def test_expected_tokens_is_the_sum_of_powers():
  for alpha in (0.0, 0.1, 0.5, 0.999999, 1 - 1e-12, 1.0):
    for gamma in (0, 1, 7, 30):
      assert theory.expected_tokens(alpha, gamma) == pytest.approx(
          sum(alpha ** i for i in range(gamma + 1)), rel=1e-12)


def test_scalars_and_arrays():
  assert isinstance(theory.expected_tokens(0.5, 3), float)
  assert isinstance(theory.optimal_gamma(0.5, 0.1), int)
  alpha, gamma = np.linspace(0, 1, 5)[:, None], np.arange(4)
  values = theory.walltime_improvement(alpha, gamma, 0.05)
  assert values.shape == (5, 4)
  assert values[2, 3] == theory.walltime_improvement(0.5, 3, 0.05)
  assert theory.optimal_gamma(alpha, np.array([0.02, 0.5])).shape == (5, 2)


def test_verify_cost_takes_the_place_of_one():
  assert theory.walltime_improvement(0.7, 4, 0.1, verify_cost=1.5) == pytest.approx(
      theory.expected_tokens(0.7, 4) / (4 * 0.1 + 1.5))


@pytest.mark.parametrize('alpha', [0.0, 0.05, 0.3, 0.62, 0.75, 0.9, 0.97])
@pytest.mark.parametrize('c', [0.01, 0.02, 0.11, 0.5, 1.0, 2.0])
@pytest.mark.parametrize('verify_cost', [1.0, 1.4])
def test_optimal_gamma_against_every_gamma(alpha, c, verify_cost):
  gammas = np.arange(1001)
  best = np.argmax(theory.walltime_improvement(alpha, gammas, c, verify_cost))
  assert theory.optimal_gamma(alpha, c, verify_cost) == best


def test_the_speed_up_of_any_draft():
  assert theory.speed_up(theory.expected_tokens(0.75, 7), 7, 0.02) == theory.walltime_improvement(0.75, 7, 0.02)
  assert theory.speed_up(4.7, 7, 0.0, 2.0) == pytest.approx(2.35)
  with pytest.raises(ValueError, match='verify_cost is 0'):
    theory.speed_up(3, 7, 0.1, 0)


def test_optimal_gamma_without_a_peak():
  assert theory.optimal_gamma(1.0, 0.5, max_gamma=50) == 50
  assert theory.optimal_gamma(0.3, 0.0, max_gamma=50) == 50
  assert theory.optimal_gamma(1.0, 0.0) == 1000
  assert theory.optimal_gamma(0.0, 0.0) == 0
  assert theory.optimal_gamma(1.0, 1.0) == 0


def test_guaranteed_improvement_is_reached():
  for alpha, c in [(0.3, 0.1), (0.8, 0.02), (0.9, 0.89), (1.0, 0.0)]:
    best = theory.walltime_improvement(alpha, theory.optimal_gamma(alpha, c), c)
    assert best >= theory.guaranteed_improvement(alpha, c) - 1e-12
    assert theory.guaranteed_improvement(alpha, c) == pytest.approx((1 + alpha) / (1 + c))
  assert theory.guaranteed_improvement(0.1, 0.5) == 1.0


def test_reads_shrink_as_tokens_grow():
  assert theory.memory_reads_reduction(0.8, 5) == theory.expected_tokens(0.8, 5)


def test_an_oracle_for_gamma():
  assert theory.oracle_tokens(0.75) == 4 and theory.oracle_tokens(1.0) == np.inf
  assert theory.oracle_tokens(0.75) == pytest.approx(theory.expected_tokens(0.75, 1000))
  assert theory.oracle_improvement(0.8, 0.0) == pytest.approx(theory.oracle_tokens(0.8))
  assert theory.oracle_improvement(1.0, 0.0) == np.inf
  alpha, c = np.linspace(0.5, 0.9, 9)[:, None], np.array([0.01, 0.02, 0.05, 0.1])
  fixed = theory.walltime_improvement(alpha, theory.optimal_gamma(alpha, c), c)
  gain = theory.oracle_improvement(alpha, c) / fixed - 1
  assert gain.min() > 0 and 0.5 < gain.max() < 0.65  # "up to ~60%" [§3.5]


def distributions(sharpness):
  logits = sharpness * np.random.default_rng(0).normal(size=(2, 5, 11))
  return np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)


@given(st.floats(0, 50))
def test_divergence_acceptance_and_residual(sharpness):
  p, q = distributions(sharpness)
  beta = theory.acceptance(p, q)
  assert beta.shape == (5,)
  np.testing.assert_allclose(beta, np.minimum(p, q).sum(-1))
  np.testing.assert_allclose(theory.divergence(p, q), 1 - beta, atol=1e-12)  # lemma 3.3
  np.testing.assert_allclose(theory.residual_mass(p, q), 1 - beta, atol=1e-12)
  np.testing.assert_allclose(theory.divergence(q, p), theory.divergence(p, q))


def test_divergence_is_one_for_disjoint_distributions_and_zero_for_equal_ones():
  p, q = [0.5, 0.5, 0, 0], [0, 0, 0.3, 0.7]
  assert theory.divergence(p, q) == 1 and theory.acceptance(p, q) == 0
  assert theory.divergence(p, p) == 0 and theory.acceptance(p, p) == 1
  assert isinstance(theory.divergence(p, q), float)


def test_acceptance_with_lenience():
  p, q = distributions(1.0)
  np.testing.assert_allclose(theory.acceptance(p, q, 0.3), np.minimum(p / 0.3, q).sum(-1))
  np.testing.assert_allclose(theory.acceptance(p, q, 0), 1.0)
  assert theory.acceptance([1.0, 0.0], [0.25, 0.75], 0) == 0.25  # p = 0 is never accepted


@pytest.mark.parametrize('call, words', [
    (lambda: theory.oracle_tokens(-0.1), 'alpha is -0.1'),
    (lambda: theory.divergence([0.5, 0.6], [0.5, 0.5]), 'the sum of p is 1.1; it must be 1'),
    (lambda: theory.divergence([1.0, 0.0], [1.5, -0.5]), 'q is -0.5'),
    (lambda: theory.acceptance([1.0], [0.5, 0.5]), r'shapes \[1\] and \[2\]'),
    (lambda: theory.acceptance([1.0], [1.0], 1.5), 'lenience is 1.5'),
    (lambda: theory.acceptance([float('nan')], [1.0]), 'p is nan'),
    (lambda: theory.expected_tokens(1.2, 3), 'alpha is 1.2'),
    (lambda: theory.expected_tokens(float('nan'), 3), 'alpha is nan'),
    (lambda: theory.expected_tokens(0.5, -1), 'gamma is -1'),
    (lambda: theory.expected_tokens(0.5, [1, 2.5]), 'gamma is 2.5'),
    (lambda: theory.walltime_improvement(0.5, 3, -0.1), 'c is -0.1'),
    (lambda: theory.walltime_improvement(0.5, 3, 0.1, 0), 'verify_cost is 0'),
    (lambda: theory.operations_increase(0.5, 3, float('inf')), 'c_hat is inf'),
    (lambda: theory.expected_tokens('high', 3), "alpha is 'high'"),
])
def test_domain_errors_name_the_value(call, words):
  with pytest.raises(ValueError, match=words):
    call()
