"""The shape of a draft: a static tree of nodes, each a token that follows its parent's."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Int32

from specdec_jax import checks
from specdec_jax.errors import SettingError

ROOT = -1


@dataclasses.dataclass(frozen=True)
class Tree:
  """A static draft tree of N nodes.

  The root is the last committed token. It is fed to the target with the nodes, but it is not one of
  them: a pass over the tree is one of N + 1 tokens, the root at place 0 and node i at place i + 1.

  Attributes:
    parents: the parent of each node, an earlier node, or -1 where that is the root. A node's children are
      in the order of their ranks: the first of them is the draft's first candidate.

  Raises:
    SettingError: no nodes, or a parent that does not come before its child.
  """

  parents: tuple[int, ...]

  def __post_init__(self):
    parents = checks.wholes('Tree.parents', self.parents, ROOT)
    for node, parent in enumerate(parents):
      if parent >= node:
        raise SettingError(f'Tree.parents[{node}] is {parent}; a parent comes before its children: it must be -1 '
                           f"(the root){' or an earlier node' if node else ''}.")
    object.__setattr__(self, 'parents', parents)

  @classmethod
  def chain(cls, gamma: int) -> Tree:
    """gamma nodes, each the only child of the one before: the paper's draft."""
    return cls(tuple(range(-1, checks.whole('gamma', gamma, 1) - 1)))

  @classmethod
  def full(cls, children: Sequence[int]) -> Tree:
    """Every node of a level has as many children: (4, 2, 1) is 4 nodes below the root, then 8, then 8."""
    parents: list[int] = []
    level: Sequence[int] = [ROOT]
    for count in checks.wholes('children', children, 1):
      first = len(parents)
      parents += [node for node in level for _ in range(count)]
      level = range(first, len(parents))
    return cls(tuple(parents))

  @classmethod
  def spine(cls, depth: int, width: int) -> Tree:
    """A chain with alternatives: width nodes a level, all children of the first node of the level above."""
    depth, width = checks.whole('depth', depth, 1), checks.whole('width', width, 1)
    return cls(tuple(ROOT if level == 0 else (level - 1) * width for level in range(depth) for _ in range(width)))

  @property
  def num_nodes(self) -> int:
    """N, the root not counted."""
    return len(self.parents)

  @property
  def depth(self) -> int:
    """Number of levels: the most tokens that can be accepted, and the draft's passes."""
    return int(self.depths.max())

  @property
  def max_children(self) -> int:
    """The most children of a node, the root included."""
    return int(self.ranks.max()) + 1

  @property
  def is_chain(self) -> bool:
    """Whether no node has two children."""
    return self.max_children == 1

  @property
  def name(self) -> str:
    """For reports: 'gamma 7' of a chain, 'tree of 15 nodes, depth 7'."""
    return f'gamma {self.num_nodes}' if self.is_chain else f'tree of {self.num_nodes} nodes, depth {self.depth}'

  @functools.cached_property
  def depths(self) -> Int32[np.ndarray, ' N']:
    """Level of each node: 1 for the root's children."""
    depths = np.zeros(self.num_nodes, np.int32)
    for node, parent in enumerate(self.parents):
      depths[node] = 1 if parent == ROOT else depths[parent] + 1
    return _fixed(depths)

  @functools.cached_property
  def ranks(self) -> Int32[np.ndarray, ' N']:
    """Place of each node among its parent's children, from 0."""
    seen = np.zeros(self.num_nodes + 1, np.int32)
    ranks = np.zeros(self.num_nodes, np.int32)
    for node, parent in enumerate(self.parents):
      ranks[node] = seen[parent]
      seen[parent] += 1
    return _fixed(ranks)

  @functools.cached_property
  def children(self) -> Int32[np.ndarray, 'N+1 C']:
    """Nodes by parent and rank, C = max_children, -1 where there is none: row 0 the root's, row i + 1 node i's."""
    children = np.full((self.num_nodes + 1, self.max_children), -1, np.int32)
    children[np.asarray(self.parents) + 1, self.ranks] = np.arange(self.num_nodes)
    return _fixed(children)

  @functools.cached_property
  def levels(self) -> tuple[Int32[np.ndarray, ' _'], ...]:
    """The nodes of depth 1, of depth 2 and so on, each in ascending order."""
    return tuple(_fixed(np.flatnonzero(self.depths == d).astype(np.int32)) for d in range(1, self.depth + 1))

  @functools.cached_property
  def expanded(self) -> tuple[Int32[np.ndarray, ' _'], ...]:
    """What has children, by level: the root (-1), then the nodes of depth 1 that have any, and so on."""
    found = [np.flatnonzero(self.children[1:, 0] >= 0)]
    by_level = [np.array([ROOT])] + [nodes[np.isin(nodes, found)] for nodes in self.levels[:-1]]
    return tuple(_fixed(nodes.astype(np.int32)) for nodes in by_level)

  @functools.cached_property
  def expanded_index(self) -> Int32[np.ndarray, ' N+1']:
    """Place in the concatenation of `expanded`, -1 where there are no children: entry 0 the root's."""
    index = np.full(self.num_nodes + 1, -1, np.int32)
    order = np.concatenate(self.expanded)
    index[order + 1] = np.arange(len(order))
    return _fixed(index)

  @functools.cached_property
  def ancestors(self) -> Bool[np.ndarray, 'N N']:
    """[i, j]: whether node j lies on the path from the root to node i, i itself included."""
    ancestors = np.eye(self.num_nodes, dtype=bool)
    for node, parent in enumerate(self.parents):
      if parent != ROOT:
        ancestors[node] |= ancestors[parent]
    return _fixed(ancestors)

  def breadth_first(self) -> Tree:
    """The same tree with its nodes numbered level by level, within a level by parent and then by rank."""
    order, new = [ROOT], {ROOT: ROOT}
    for node in order:  # grows as it goes
      for child in self.children[node + 1, :]:
        if child >= 0:
          new[int(child)] = len(order) - 1
          order.append(int(child))
    return Tree(tuple(new[self.parents[node]] for node in order[1:]))

  def __repr__(self) -> str:
    if self.num_nodes > 16:
      return f'Tree({self.num_nodes} nodes, depth {self.depth})'
    return f'Tree(parents={self.parents})'


def _fixed(array: np.ndarray) -> np.ndarray:
  array.setflags(write=False)
  return array
