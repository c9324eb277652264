"""Thm 3.8 over gamma, between the draft lengths whose costs were measured."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float64, Int64

from specdec_jax.analysis import theory


def speed_ups(alpha: float, measured: Sequence[tuple[int, float, float]]) -> tuple[
    Int64[np.ndarray, ' G'], Float64[np.ndarray, ' G']]:
  """Expected speed-ups up to the longest gamma that was measured: beyond it nothing is known.

  Args:
    alpha: expected acceptance.
    measured: gamma, c and verify cost of each draft length. Between them both costs go in straight lines, and
      the verify cost begins with 1 at gamma = 0.

  Returns:
    gammas 1 to G, and the speed-up of each by thm 3.8 with the verify cost.
  """
  tried, c, verify_cost = np.array(sorted(measured), np.float64).T
  gammas = np.arange(1, int(tried[-1]) + 1)
  return gammas, np.asarray(theory.walltime_improvement(
      alpha, gammas, np.interp(gammas, tried, c), np.interp(gammas, [0, *tried], [1, *verify_cost])))


def between(measured: Sequence[tuple[float, float]]) -> Callable[[float], float]:
  """A cost by straight lines between those measured, (tokens, cost) each; beyond them it stays as it is."""
  tokens, costs = np.array(sorted(measured), np.float64).T
  return lambda at: float(np.interp(at, tokens, costs))


def best_gamma(alpha: float, measured: Sequence[tuple[int, float, float]]) -> int:
  """The gamma with the largest of these speed-ups, 0 where none is above 1."""
  gammas, expected = speed_ups(alpha, measured)
  best = int(np.argmax(expected))
  return int(gammas[best]) if expected[best] > 1 else 0
