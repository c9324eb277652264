"""What a draft tree is expected to give, and the best tree for measured figures.

Rank k is the draft's k-th candidate for a place. Where the k-th child of a node is the one accepted with
probability acceptance_by_rank[k], a node is accepted with the product of the probabilities along its path,
and an iteration makes 1 + the sum of these products over all nodes [Sequoia, Chen et al. 2024, arXiv 2402.12374].
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from specdec_jax import checks
from specdec_jax.analysis import domains
from specdec_jax.errors import SettingError
from specdec_jax.tree import ROOT, Tree


def expected_tokens_of(tree: Tree, acceptance_by_rank: ArrayLike) -> float:
  """Expected tokens of one iteration; ranks without a probability are never accepted."""
  by_rank = domains.acceptance_by_rank(acceptance_by_rank)
  ranks = checks.instance('tree', tree, Tree, 'a Tree').ranks
  by_rank = np.pad(by_rank, (0, max(0, tree.max_children - len(by_rank))))
  accepted = np.zeros(tree.num_nodes)
  for node, parent in enumerate(tree.parents):
    accepted[node] = by_rank[ranks[node]] * (1.0 if parent == ROOT else accepted[parent])
  return float(1 + accepted.sum())


def best_tree(acceptance_by_rank: ArrayLike, max_nodes: int, max_depth: int, c: float = 0.0,
              verify_cost: Callable[[int], float] | None = None) -> Tree:
  """The tree with the most expected tokens per unit of time.

  An iteration takes depth * c + verify_cost(nodes + 1) one-token target passes. Of trees that are
  equally good it is the one with the fewest nodes, then the least depth; its nodes are numbered breadth
  first. It has at least one node, even where plain decoding is faster, and no node has more than K children.

  Args:
    acceptance_by_rank: float [K], the probability that the k-th candidate is the one accepted.
    max_nodes: at least 1, the root not counted.
    max_depth: at least 1.
    c: time of a draft pass, one for each level, over that of a one-token target pass.
    verify_cost: time of a target pass over so many tokens, in one-token passes; 1 by default.

  Raises:
    SettingError: a value outside its domain.
  """
  by_rank = domains.acceptance_by_rank(acceptance_by_rank)
  nodes = checks.whole('max_nodes', max_nodes, 1)
  depth = min(checks.whole('max_depth', max_depth, 1), nodes)
  c = checks.real('c', c, lambda x: 0 <= x < np.inf, 'that is finite, 0 or more')
  costs = np.array([1.0 if verify_cost is None else _cost(verify_cost, n + 1) for n in range(1, nodes + 1)])
  values, choices = _most_accepted(by_rank[:nodes], nodes, depth)
  # [depth, nodes]: exactly so many nodes within so many levels.
  speed = (1 + values[1:, 0, 1:]) / (np.arange(1, depth + 1)[:, None] * c + costs)
  best = speed >= speed.max() * (1 - 1e-12)
  num_nodes = int(np.argmax(best.any(0)))
  return _build(choices, int(np.argmax(best[:, num_nodes])) + 1, num_nodes + 1)


def _most_accepted(by_rank: Float64[np.ndarray, ' K'], nodes: int, depth: int):
  """The dynamic programme over depth, rank and nodes.

  Returns:
    values: float [D + 1, K + 1, N + 1], the most tokens that are expected to be accepted below one node
      where its children have ranks k and above and make subtrees of exactly n nodes within d levels; -inf
      where there are no such subtrees.
    choices: int [D + 1, K + 1, N + 1], the nodes of the first of these subtrees.
  """
  count = len(by_rank)
  values = np.full((depth + 1, count + 1, nodes + 1), -np.inf)
  values[:, :, 0] = 0.0
  choices = np.zeros(values.shape, np.int32)
  for d in range(1, depth + 1):
    below = 1 + values[d - 1, 0, :-1]  # of a child whose subtree has 1, 2, ... nodes
    for k in reversed(range(count)):
      subtree = np.where(np.isfinite(below), by_rank[k], 1.0) * below
      others = values[d, k + 1]
      total = np.full((nodes, nodes + 1), -np.inf)  # [the subtree's nodes - 1, all nodes]
      for m in range(1, nodes + 1):
        total[m - 1, m:] = subtree[m - 1] + others[:nodes + 1 - m]
      choices[d, k, 1:] = total.argmax(0)[1:] + 1
      values[d, k, 1:] = total.max(0)[1:]
  return values, choices


def _build(choices, depth: int, nodes: int) -> Tree:
  """The tree of so many nodes within so many levels, breadth first."""
  parents, queue = [], [(ROOT, depth, nodes)]
  for node, d, left in queue:  # grows as it goes
    rank = 0
    while left:
      size = int(choices[d, rank, left])
      parents.append(node)
      queue.append((len(parents) - 1, d - 1, size - 1))
      rank, left = rank + 1, left - size
  return Tree(tuple(parents))


def _cost(verify_cost: Callable[[int], float], tokens: int) -> float:
  if not callable(verify_cost):
    raise SettingError(f'verify_cost is {checks.shown(verify_cost)}; it must be a function of the tokens of a pass.')
  return checks.real(f'verify_cost({tokens})', verify_cost(tokens), lambda x: 0 < x < np.inf,
                     'that is finite and more than 0')
