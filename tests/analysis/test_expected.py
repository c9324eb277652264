import numpy as np
import pytest

from specdec_jax.analysis import expected, theory


def test_between_measured_gammas_costs_go_in_straight_lines():
  gammas, found = expected.speed_ups(0.7, [(4, 0.06, 1.8), (2, 0.1, 1.4)])
  assert gammas.tolist() == [1, 2, 3, 4]
  wanted = [theory.walltime_improvement(0.7, g, c, v) for g, c, v in (
      (1, 0.1, 1.2), (2, 0.1, 1.4), (3, 0.08, 1.6), (4, 0.06, 1.8))]
  np.testing.assert_allclose(found, wanted)


@pytest.mark.parametrize('alpha, measured, best', [
    (0.9, [(7, 0.02, 1.0)], 7),  # it grows on, but nothing longer was measured
    (0.5, [(7, 0.6, 1.3)], 0),
    (0.7, [(7, 0.2, 1.0)], 3),
    (0.9, [(7, 0.0, 0.4)], 7)])  # absurd costs, and no 1000
def test_the_best_gamma_is_one_that_was_measured_or_shorter(alpha, measured, best):
  assert expected.best_gamma(alpha, measured) == best


def test_with_constant_costs_it_is_that_of_the_theory():
  for alpha in (0.3, 0.6, 0.8):
    for c in (0.02, 0.1, 0.3):
      assert expected.best_gamma(alpha, [(40, c, 1.0)]) == theory.optimal_gamma(alpha, c)
