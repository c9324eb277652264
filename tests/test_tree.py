import copy
import pickle

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.errors import SettingError

LOPSIDED = sd.Tree((-1, 0, -1, 1, 2, 0, -1))  # 0 has children 1 and 5, 1 has 3, 2 has 4


def test_what_a_tree_says_of_its_nodes():
  tree = sd.Tree(parents=(-1, -1, 0, 0, 1))
  assert (tree.num_nodes, tree.depth, tree.max_children, tree.is_chain) == (5, 2, 2, False)
  assert tree.name == 'tree of 5 nodes, depth 2' and sd.Tree.chain(5).name == 'gamma 5'
  assert tree.depths.tolist() == [1, 1, 2, 2, 2] and tree.ranks.tolist() == [0, 1, 0, 1, 0]
  assert tree.children.tolist() == [[0, 1], [2, 3], [4, -1], [-1, -1], [-1, -1], [-1, -1]]
  assert [level.tolist() for level in tree.levels] == [[0, 1], [2, 3, 4]]
  assert tree.ancestors.astype(int).tolist() == [
      [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0], [0, 1, 0, 0, 1]]


def test_nodes_in_any_order_after_their_parents():
  assert LOPSIDED.depths.tolist() == [1, 2, 1, 3, 2, 2, 1]
  assert LOPSIDED.ranks.tolist() == [0, 0, 1, 0, 0, 1, 2]
  assert [level.tolist() for level in LOPSIDED.levels] == [[0, 2, 6], [1, 4, 5], [3]]
  assert np.flatnonzero(LOPSIDED.ancestors[3]).tolist() == [0, 1, 3]


def test_breadth_first_is_the_same_tree():
  ordered = LOPSIDED.breadth_first()
  assert ordered == sd.Tree((-1, -1, -1, 0, 0, 1, 3))
  assert sorted(ordered.depths.tolist()) == ordered.depths.tolist()
  paths = lambda tree: sorted(
      tuple(tree.ranks[np.flatnonzero(row)][np.argsort(tree.depths[np.flatnonzero(row)])]) for row in tree.ancestors)
  assert paths(ordered) == paths(LOPSIDED)
  assert ordered.breadth_first() == ordered


def test_named_shapes():
  assert sd.Tree.chain(3) == sd.Tree((-1, 0, 1)) and sd.Tree.chain(3).is_chain and sd.Tree.chain(3).depth == 3
  assert sd.Tree.full((2, 2, 1)) == sd.Tree((-1, -1, 0, 0, 1, 1, 2, 3, 4, 5))
  assert sd.Tree.full([1] * 4) == sd.Tree.chain(4)
  assert sd.Tree.spine(3, 2) == sd.Tree((-1, -1, 0, 0, 2, 2)) and sd.Tree.spine(5, 1) == sd.Tree.chain(5)


def test_a_tree_is_a_static_value():
  tree = sd.Tree([-1, np.int64(0), 1.0])
  assert tree == sd.Tree((-1, 0, 1)) and hash(tree) == hash(sd.Tree((-1, 0, 1)))
  assert tree.ancestors.all(1).any() and pickle.loads(pickle.dumps(tree)) == copy.deepcopy(tree) == tree
  with pytest.raises(ValueError, match='read-only'):
    tree.depths[0] = 4
  assert repr(tree) == 'Tree(parents=(-1, 0, 1))' and repr(sd.Tree.chain(63)) == 'Tree(63 nodes, depth 63)'


@pytest.mark.parametrize('make, words', [
    (lambda: sd.Tree(()), 'Tree.parents is empty'),
    (lambda: sd.Tree((0,)), r'Tree.parents\[0\] is 0; .* must be -1 \(the root\)\.'),
    (lambda: sd.Tree((-1, 2, 0)), r'Tree.parents\[1\] is 2; a parent comes before its children'),
    (lambda: sd.Tree((-1, -2)), r'Tree.parents\[1\] is -2'),
    (lambda: sd.Tree((-1, 0.5)), r'Tree.parents\[1\] is 0.5'),
    (lambda: sd.Tree('chain'), "Tree.parents is 'chain'"),
    (lambda: sd.Tree(7), 'Tree.parents is 7'),
    (lambda: sd.Tree.chain(0), 'gamma is 0'),
    (lambda: sd.Tree.full((2, 0)), r'children\[1\] is 0'),
    (lambda: sd.Tree.spine(2, '3'), "width is '3'"),
])
def test_wrong_trees_in_one_line(make, words):
  with pytest.raises(SettingError, match=words) as caught:
    make()
  assert '\n' not in str(caught.value)


