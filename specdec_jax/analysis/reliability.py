"""Whether the timings of one run can be trusted: repeats must agree with each other, and parts with the whole.

On a machine that does other work at the same time they do not, and then no speed-up, c or best gamma says
anything of the decoders.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

MOST_SPREAD = 0.15  # how much longer the median repeat may take than the fastest
LEAST_VERIFY_COST = 0.9  # a pass over more tokens cannot take less time; a tenth is left to noise
MOST_C = 2.0  # a draft token in target steps, or in the draft's share of the operations where that is above 1
EXPLAINED = (0.8, 1.25)  # sum of the parts over the whole


def spread(seconds: ArrayLike) -> float | None:
  """How much longer the median repeat takes than the fastest, as a share.

  Args:
    seconds: float [N, R], R repeats of each of N timings, which are added up.

  Returns:
    sum of the medians / sum of the fastest - 1; None of a single repeat.
  """
  seconds = np.asarray(seconds, np.float64)
  if seconds.shape[1] < 2:
    return None
  return float(np.median(seconds, axis=1).sum() / seconds.min(axis=1).sum() - 1)


def of_repeats(spreads: Mapping[str, float | None]) -> list[str]:
  """Why repeats cannot be trusted, a line each; empty where they can, or where there was one repeat.

  Args:
    spreads: by what was timed, such as 'target alone', its `spread`.
  """
  return [f'{name}: the median repeat took {share:.0%} longer than the fastest'
          for name, share in spreads.items() if share is not None and not share <= MOST_SPREAD]


def of_cost(nodes: int, c: float, verify_cost: float, c_hat: float) -> list[str]:
  """Why the times of an iteration's parts cannot be true, a line each.

  Args:
    nodes: draft tokens of the pass.
    c, verify_cost: as in `theory`.
    c_hat: a draft token's operations over the target's, which c may well exceed, but not by far.
  """
  found = []
  if not verify_cost >= LEAST_VERIFY_COST:
    found.append(f'a pass over {nodes + 1} tokens took {verify_cost:.2f} of the time of a one-token pass')
  if not 0 <= c <= MOST_C * max(1.0, c_hat):
    found.append(f'a draft token took {c:.2f} of the time of a target step, and {c_hat:.2f} of its operations')
  return found


def of_whole(explained: Mapping[str, float], speed_up: float, by_parts: float) -> list[str]:
  """Why parts and whole contradict each other, a line each.

  Args:
    explained: by decoder, such as 'target alone', the sum of its parts' times over its own time.
    speed_up: measured.
    by_parts: what it should be by the sums of the parts.
  """
  found = [f'{name}: the parts, timed alone, add up to {share:.0%} of the time'
           for name, share in explained.items() if not EXPLAINED[0] <= share <= EXPLAINED[1]]
  if not EXPLAINED[0] <= by_parts / speed_up <= EXPLAINED[1]:
    found.append(f'the parts, timed alone, give a speed-up of {by_parts:.2f}X, and {speed_up:.2f}X was measured')
  return found
