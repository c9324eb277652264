"""Trees against all trees there are, and against figures that were measured and worked out elsewhere."""

import itertools

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.analysis import theory
from specdec_jax.errors import SettingError

# The target's choice is the draft's k-th candidate: the embedded pair, temperature 0 and 1.
GREEDY, SAMPLED = (0.700, 0.118, 0.062, 0.027), (0.721, 0.089, 0.041, 0.026)
MOST_NODES = 7


def trees(most):
  """Every tree of up to so many nodes, numbered breadth first: the parents are then in ascending order."""
  for nodes in range(1, most + 1):
    for parents in itertools.combinations_with_replacement(range(-1, nodes - 1), nodes):
      if all(parent < node for node, parent in enumerate(parents)):
        yield sd.Tree(parents)


def enumerated(tree, by_rank):
  """1 + every node's probability, each path multiplied out by itself."""
  total = 1.0
  for row in tree.ancestors:
    total += np.prod([by_rank[rank] if rank < len(by_rank) else 0.0 for rank in tree.ranks[row]])
  return total


def speed(tree, by_rank, c, verify_cost):
  return enumerated(tree, by_rank) / (tree.depth * c + verify_cost(tree.num_nodes + 1))


ALL = list(trees(MOST_NODES))


def test_there_are_as_many_trees_as_catalan_says():
  assert len(ALL) == sum([1, 2, 5, 14, 42, 132, 429])
  assert len(set(ALL)) == len(ALL) and all(t.breadth_first() == t for t in ALL)


@pytest.mark.parametrize('by_rank', [
    GREEDY, SAMPLED, (0.4, 0.3, 0.2, 0.1), (0.2, 0.5, 0.1), (0.3, 0.0, 0.6), (0.9,), (0.0, 0.0), (1.0,)], ids=str)
@pytest.mark.parametrize('c, verify_cost', [
    (0.0, lambda tokens: 1.0), (0.02, lambda tokens: 1.0), (0.3, lambda tokens: 1 + 0.05 * tokens),
    (0.05, lambda tokens: 2.0 if tokens in (2, 5, 6) else 1.0), (0.0, lambda tokens: 1 + 0.4 * (tokens - 1))],
    ids=['free', 'paper', 'linear', 'steps', 'dear'])
def test_the_best_of_all_trees(by_rank, c, verify_cost):
  for max_nodes, max_depth in [(1, 1), (4, 2), (6, 3), (MOST_NODES, 5), (MOST_NODES, 20)]:
    found = theory.best_tree(by_rank, max_nodes, max_depth, c, verify_cost)
    assert found.num_nodes <= max_nodes and found.depth <= max_depth
    best = max(speed(t, by_rank, c, verify_cost) for t in ALL
               if t.num_nodes <= max_nodes and t.depth <= max_depth and t.max_children <= len(by_rank))
    assert speed(found, by_rank, c, verify_cost) == pytest.approx(best, rel=1e-12)


def test_ties_go_to_the_smaller_tree():
  assert theory.best_tree((0.0,), 5, 5) == sd.Tree((-1,))
  assert theory.best_tree((1.0,), 9, 3) == sd.Tree.chain(3)
  assert theory.best_tree((0.5, 0.25), 2, 2) == sd.Tree((-1, -1))  # the chain gives 1.75 too
  assert theory.best_tree(GREEDY, 3, 3, 5.0).depth == 1  # a draft pass costs more than it gives


@pytest.mark.parametrize('tree', [sd.Tree((-1, -1, 0, 0, 1)), sd.Tree((-1, 0, -1, 1, 2, 0, -1, 6, 6, 6, 6, 6)),
                                  sd.Tree.spine(3, 5)], ids=str)
def test_expected_tokens_of_a_tree(tree):
  assert theory.expected_tokens(GREEDY, tree=tree) == pytest.approx(enumerated(tree, GREEDY))
  assert theory.expected_tokens(GREEDY, tree=tree.breadth_first()) == pytest.approx(enumerated(tree, GREEDY))


def test_a_chain_is_eq_1():
  for gamma in (1, 4, 7):
    assert theory.expected_tokens((0.62, 0.2), tree=sd.Tree.chain(gamma)) == pytest.approx(
        theory.expected_tokens(0.62, gamma))
    assert theory.best_tree((0.62,), gamma, 30) == sd.Tree.chain(gamma)


def completed(by_rank, total):
  """16 ranks: those known, and a geometric tail that brings their sum to the total."""
  powers = np.arange(1, 17 - len(by_rank))
  ratios = np.linspace(0.3, 0.999, 7000)
  tails = by_rank[-1] * (ratios[:, None] ** powers)
  return [*by_rank, *tails[np.argmin(np.abs(tails.sum(1) - (total - sum(by_rank))))]]


@pytest.mark.parametrize('nodes, depth, greedy, sampled', [
    (7, 7, 3.18, 3.33), (15, 7, 3.71, 3.76), (31, 7, 4.21, 4.16), (63, 7, 4.70, 4.59), (127, 10, 5.30, 5.18)])
def test_trees_of_the_embedded_pair(nodes, depth, greedy, sampled):
  """Worked out elsewhere from all ranks. Known here: four of them to three digits, and at temperature 0 that 16
  sum to 0.973; the tails, and the sum at temperature 1, are filled in, so the figures agree to about a percent."""
  for by_rank, tokens in ((completed(GREEDY, 0.973), greedy), (completed(SAMPLED, 0.94), sampled)):
    tree = theory.best_tree(by_rank, nodes, depth)
    assert (tree.num_nodes, tree.depth <= depth) == (nodes, True)
    assert theory.expected_tokens(by_rank, tree=tree) == pytest.approx(tokens, rel=0.015)


@pytest.mark.parametrize('call, words', [
    (lambda: theory.best_tree((), 7, 7), r'acceptance_by_rank has shape \[0\]'),
    (lambda: theory.best_tree(0.7, 7, 7), r'acceptance_by_rank has shape \[\]'),
    (lambda: theory.best_tree((0.7, 0.4), 7, 7), 'the sum of acceptance_by_rank is 1.1; it must be at most 1'),
    (lambda: theory.best_tree((0.7, -0.1), 7, 7), 'acceptance_by_rank is -0.1'),
    (lambda: theory.best_tree(('0.7',), 7, 7), 'acceptance_by_rank is '),
    (lambda: theory.best_tree(GREEDY, 0, 7), 'max_nodes is 0'),
    (lambda: theory.best_tree(GREEDY, 7, 1.5), 'max_depth is 1.5'),
    (lambda: theory.best_tree(GREEDY, 7, 7, -0.1), 'c is -0.1'),
    (lambda: theory.best_tree(GREEDY, 7, 7, 0.1, 1.2), 'verify_cost is 1.2; it must be a function'),
    (lambda: theory.best_tree(GREEDY, 7, 7, 0.1, lambda tokens: 0.0), r'verify_cost\(2\) is 0.0'),
    (lambda: theory.expected_tokens(GREEDY, tree=(-1, 0)), 'tree is .* must be a Tree'),
    (lambda: theory.expected_tokens(0.7), 'either gamma or a tree'),
    (lambda: theory.expected_tokens(0.7, 3, tree=sd.Tree.chain(3)), 'either gamma or a tree'),
])
def test_wrong_values_in_one_line(call, words):
  with pytest.raises(SettingError, match=words) as caught:
    call()
  assert '\n' not in str(caught.value)
