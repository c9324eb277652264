import numpy as np
import pytest

from specdec_jax.analysis import theory

# alpha, gamma, operations, speed: the digits of the paper's Table 1 (c = c_hat = 0).
TABLE_1 = [
    (0.6, 2, '1.53', '1.96'),
    (0.7, 3, '1.58', '2.53'),
    (0.8, 2, '1.23', '2.44'),
    (0.8, 5, '1.63', '3.69'),
    (0.9, 2, '1.11', '2.71'),
    (0.9, 10, '1.60', '6.86'),
]
C = {'small': 0.02, 'base': 0.04, 'large': 0.11}
# Table 2's rows with the column "thm 3.8" of Table 4.
TABLE_4 = [
    ('small', 7, 0.75, 3.2), ('base', 7, 0.80, 3.3), ('large', 7, 0.82, 2.5),
    ('small', 7, 0.62, 2.3), ('base', 5, 0.68, 2.4), ('large', 3, 0.71, 2.0),
    ('small', 5, 0.65, 2.4), ('base', 5, 0.73, 2.6), ('large', 3, 0.74, 2.0),
    ('small', 5, 0.53, 1.9), ('base', 3, 0.55, 1.8), ('large', 3, 0.56, 1.6),
]


@pytest.mark.parametrize('alpha, gamma, operations, speed', TABLE_1)
def test_table_1_to_its_printed_digits(alpha, gamma, operations, speed):
  assert f'{theory.operations_increase(alpha, gamma, 0):.2f}' == operations
  assert f'{theory.walltime_improvement(alpha, gamma, 0):.2f}' == speed


@pytest.mark.parametrize('draft, gamma, alpha, printed', TABLE_4)
def test_table_4_expectations(draft, gamma, alpha, printed):
  # The paper rounds alpha to two digits first, so its own figure is reached to 0.1.
  assert theory.walltime_improvement(alpha, gamma, C[draft]) == pytest.approx(printed, abs=0.1)


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


@pytest.mark.parametrize('call, words', [
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
