"""What the paper predicts from alpha, gamma and the relative costs [§3].

Every function takes scalars or arrays that broadcast (float64 inside) and returns
a Python number for scalars, else a NumPy array. A SettingError names a value that
lies outside its domain.

  alpha: expected acceptance [cor. 3.6], in [0, 1].
  gamma: draft length, a whole number >= 0 (0 is plain decoding).
  c: time of a draft step over that of a one-token target step, >= 0.
  c_hat: the same ratio in arithmetic operations, >= 0.
  verify_cost: time of the (gamma + 1)-token target pass over that of a one-token
    step; the paper takes it to be 1.
  p, q: standardised distributions of target and draft, float [..., V], each summing to 1.
"""

import numpy as np
from jaxtyping import Int64
from numpy.typing import ArrayLike

from specdec_jax.analysis import domains
from specdec_jax.analysis.trees import (
  best_tree as best_tree,  # a part of the theory, in a file of its own
  expected_tokens_of,
)
from specdec_jax.errors import SettingError
from specdec_jax.tree import Tree

Result = float | domains.Numbers


def acceptance(p: ArrayLike, q: ArrayLike, lenience: ArrayLike = 1.0) -> Result:
  """beta, the probability that a draft token is accepted, sum_x min(p, q) [thm 3.5].

  With lenience l it is sum_x min(p / l, q) [app. A.5].
  """
  p, q = domains.distributions(p, q)
  lenience = domains.probabilities(lenience, 'lenience')
  with np.errstate(divide='ignore', invalid='ignore'):
    lenient = np.where(p > 0, p / lenience[..., None], 0.0)
  return domains.result(np.minimum(lenient, q).sum(-1))


def divergence(p: ArrayLike, q: ArrayLike) -> Result:
  """D_LK(p, q) = sum_x |p - (p + q) / 2| [def. 3.2], in [0, 1]; 1 - sum_x min(p, q) [lemma 3.3]."""
  p, q = domains.distributions(p, q)
  return domains.result(np.abs(p - q).sum(-1) / 2)


def residual_mass(p: ArrayLike, q: ArrayLike) -> Result:
  """What normalises max(0, p - q): 1 - beta, the probability of a rejection [app. A.1]."""
  p, q = domains.distributions(p, q)
  return domains.result(np.maximum(p - q, 0).sum(-1))


def expected_tokens(alpha: ArrayLike, gamma: ArrayLike | None = None, *, tree: Tree | None = None) -> Result:
  """Expected tokens of one iteration, (1 - alpha^(gamma+1)) / (1 - alpha) [eq. 1].

  With a tree in place of gamma, alpha is acceptance_by_rank, float [K]: the probability that the draft's
  k-th candidate for a place is the one accepted.
  """
  if (gamma is None) == (tree is None):
    raise SettingError('expected_tokens takes either gamma or a tree.')
  if tree is not None:
    return expected_tokens_of(tree, alpha)
  assert gamma is not None
  alpha, gamma = domains.probabilities(alpha, 'alpha'), domains.whole(gamma, 'gamma')
  return domains.result(_expected_tokens(alpha, gamma))


def memory_reads_reduction(alpha: ArrayLike, gamma: ArrayLike) -> Result:
  """Factor by which reads of the target's weights and KV cache shrink [§3.4].

  They are read once an iteration, so this is eq. 1.
  """
  return expected_tokens(alpha, gamma)


def walltime_improvement(alpha: ArrayLike, gamma: ArrayLike, c: ArrayLike, verify_cost: ArrayLike = 1.0) -> Result:
  """Expected factor by which the walltime shrinks [thm 3.8].

  (1 - alpha^(gamma+1)) / ((1 - alpha)(gamma c + 1)), with verify_cost in place of
  the 1 where it is given.
  """
  alpha, gamma = domains.probabilities(alpha, 'alpha'), domains.whole(gamma, 'gamma')
  return speed_up(_expected_tokens(alpha, gamma), gamma, c, verify_cost)


def speed_up(expected_tokens: ArrayLike, levels: ArrayLike, c: ArrayLike, verify_cost: ArrayLike = 1.0) -> Result:
  """The same of any draft: expected_tokens / (levels c + verify_cost).

  Args:
    expected_tokens: of an iteration.
    levels: draft passes of an iteration: gamma of a chain, the depth of a tree.
    c: of one of them.
    verify_cost: of the pass over the whole draft.
  """
  expected_tokens, c = domains.positive(expected_tokens, 'expected_tokens'), domains.not_negative(c, 'c')
  levels, verify_cost = domains.whole(levels, 'levels'), domains.positive(verify_cost, 'verify_cost')
  return domains.result(expected_tokens / (levels * c + verify_cost))


def operations_increase(alpha: ArrayLike, gamma: ArrayLike, c_hat: ArrayLike) -> Result:
  """Expected factor by which the arithmetic operations grow [thm 3.11].

  (1 - alpha)(gamma c_hat + gamma + 1) / (1 - alpha^(gamma+1)).
  """
  alpha, gamma = domains.probabilities(alpha, 'alpha'), domains.whole(gamma, 'gamma')
  c_hat = domains.not_negative(c_hat, 'c_hat')
  return domains.result((gamma * c_hat + gamma + 1) / _expected_tokens(alpha, gamma))


def optimal_gamma(alpha: ArrayLike, c: ArrayLike, verify_cost: ArrayLike = 1.0,
                  max_gamma: ArrayLike = 1000) -> int | Int64[np.ndarray, '...']:
  """The smallest whole gamma that maximises thm 3.8 [§3.5]; 0 where no draft helps.

  Thm 3.8 has one peak in gamma. Where it grows for ever (c = 0, or alpha = 1 and
  c < verify_cost) the answer is max_gamma. verify_cost is taken not to depend on gamma.
  """
  alpha, c = domains.probabilities(alpha, 'alpha'), domains.not_negative(c, 'c')
  verify_cost, limit = domains.positive(verify_cost, 'verify_cost'), domains.whole(max_gamma, 'max_gamma')
  low = np.zeros(np.broadcast_shapes(alpha.shape, c.shape, verify_cost.shape, limit.shape))
  high = low + limit
  while np.any(low < high):  # bisection for the first gamma whose successor is no better
    middle = np.floor((low + high) / 2)
    gain = alpha ** (middle + 1) * (middle * c + verify_cost)
    better = gain > c * _expected_tokens(alpha, middle)
    low = np.where((low < high) & better, middle + 1, low)
    high = np.where((low < high) & ~better, middle, high)
  low = low.astype(np.int64)
  # alpha^gamma underflows long before max_gamma; with a free draft more is still never worse.
  low = np.where((c == 0) & (alpha > 0), limit.astype(np.int64), low)
  return int(low) if low.ndim == 0 else low


def guaranteed_improvement(alpha: ArrayLike, c: ArrayLike) -> Result:
  """Improvement that some gamma reaches at least, (1 + alpha) / (1 + c) [cor. 3.9].

  The corollary needs alpha > c; elsewhere the guarantee is 1, plain decoding.
  """
  alpha, c = domains.probabilities(alpha, 'alpha'), domains.not_negative(c, 'c')
  return domains.result(np.maximum((1 + alpha) / (1 + c), 1.0))


def oracle_tokens(alpha: ArrayLike) -> Result:
  """Tokens of an iteration if an oracle knew the best gamma for it, 1 / (1 - alpha) [§3.5]."""
  alpha = domains.probabilities(alpha, 'alpha')
  with np.errstate(divide='ignore'):
    return domains.result(1 / (1 - alpha))


def oracle_improvement(alpha: ArrayLike, c: ArrayLike) -> Result:
  """Walltime factor with that oracle: it drafts just the alpha / (1 - alpha) tokens that are accepted.

  1 / (1 - alpha + c alpha); the paper's "up to 60%" compares it with the best fixed gamma [§3.5].
  """
  alpha, c = domains.probabilities(alpha, 'alpha'), domains.not_negative(c, 'c')
  with np.errstate(divide='ignore'):
    return domains.result(1 / (1 - alpha + c * alpha))


def _expected_tokens(alpha, gamma):
  rejection = 1 - alpha
  safe = np.where(rejection > 0, rejection, 1.0)
  with np.errstate(divide='ignore'):  # log1p(-1) = -inf is what alpha = 0 needs
    series = -np.expm1((gamma + 1) * np.log1p(-safe)) / safe
  return np.where(rejection > 0, series, gamma + 1)
