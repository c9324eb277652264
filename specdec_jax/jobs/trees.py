"""Draft trees with names, for gin files: `decode.tree = @best_tree()`."""

from collections.abc import Sequence

from specdec_jax import arguments, checks
from specdec_jax.analysis import expected, theory
from specdec_jax.tree import Tree


def _acceptance(name: str, value: Sequence[float]) -> tuple[float, ...]:
  """Of each rank, checked one by one and as a whole."""
  of_ranks = checks.sequence(name, value, arguments.probability)
  checks.real(f'{name} (their sum)', sum(of_ranks), lambda total: total <= 1 + 1e-6, 'of at most 1')
  return of_ranks


def _cost(name: str, value: Sequence) -> tuple[float, float]:
  """Tokens of a pass and what it costs."""
  pair = checks.sequence(name, value, arguments.positive)
  checks.whole(f'{name} (the length of a pair)', len(pair), 2, 2)
  return pair[0], pair[1]


@arguments.checked(children=arguments.tuple_of(arguments.at_least(1)))
def full_tree(children: Sequence[int] = (4, 2, 1)) -> Tree:
  """See `Tree.full`: every node of a level has as many children."""
  return Tree.full(children)


@arguments.checked(depth=arguments.at_least(1), width=arguments.at_least(1))
def spine_tree(depth: int = 7, width: int = 2) -> Tree:
  """See `Tree.spine`: a chain with alternatives."""
  return Tree.spine(depth, width)


@arguments.checked(
    acceptance_by_rank=_acceptance, max_nodes=arguments.at_least(1), max_depth=arguments.at_least(1),
    c=arguments.not_negative, verify_costs=arguments.tuple_of(_cost, empty=True))
def best_tree(acceptance_by_rank: Sequence[float], max_nodes: int = 63, max_depth: int = 7, c: float = 0.0,
              verify_costs: Sequence[tuple[float, float]] = ()) -> Tree:
  """See `theory.best_tree`: the fastest tree for measured figures.

  Args:
    acceptance_by_rank: probability that the k-th candidate is the one accepted.
    max_nodes, max_depth: limits, the root not counted.
    c: time of a draft pass over that of a one-token target pass.
    verify_costs: (tokens, time of a target pass over so many, in one-token passes), in straight lines between;
      none is 1 for all.
  """
  return theory.best_tree(acceptance_by_rank, max_nodes, max_depth, c, expected.between([(1, 1), *verify_costs]))
