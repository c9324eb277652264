"""The tree of drafted hypotheses, and where its nodes' keys and values lie in a cache.

A cache row serves all beams of an input:

  | before the start | position 0 | position 1 | ... | tree                                   |
  |     W slots      |  W slots   |  W slots   |     | previous W | live W | u | u | ... | u |

The slots of a position hold the W beams that were live there, once; `Lineage` says
which of them a live beam continues, so beams are never moved. The tree holds the
live beams' last tokens, after them gamma levels of u drafted ones, and before them
the tokens that the draft has not yet been fed.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from specdec_jax.beam.state import Beams, pick


@dataclasses.dataclass(frozen=True)
class Layout:
  """Sizes of a tree and of the caches: W live beams, u drafted ones, gamma levels of them."""

  width: int
  drafted: int
  gamma: int
  max_decode_len: int

  @property
  def rows(self) -> int:
    """Positions with slots of their own: from the one before the start to the end of a block
    that is kept at the last position."""
    return self.max_decode_len + self.gamma + 2

  @property
  def slot(self) -> int:
    """Where the tree begins in a cache."""
    return self.rows * self.width

  @property
  def size(self) -> int:
    """Nodes of a tree."""
    return 2 * self.width + self.gamma * self.drafted

  @property
  def depth(self) -> np.ndarray:
    """Level of every node, int32 [M]: 0 the previous beams, 1 the live ones, 2 the first drafted."""
    return np.repeat(np.arange(2 + self.gamma, dtype=np.int32),
                     [self.width] * 2 + [self.drafted] * self.gamma)

  def level(self, i):
    """First node of the drafted level i, from 1."""
    return 2 * self.width + (i - 1) * self.drafted


class Lineage(struct.PyTreeNode):
  """Whom the beams continue. R rows of slots; row r is position r - 1."""

  live: jax.Array  # int32 [B, W, R], the beam of each position that a live beam continues
  previous: jax.Array  # int32 [B, W, R], the same for the beams that were live a step ago
  last: jax.Array  # int32 [B, W], their last tokens
  parent: jax.Array  # int32 [B, W], which of them a live beam continues

  @classmethod
  def start(cls, batch: int, layout: Layout):
    none = jnp.zeros((batch, layout.width), jnp.int32)
    table = jnp.zeros((batch, layout.width, layout.rows), jnp.int32)
    return cls(live=table, previous=table, last=none, parent=none)

  def descend(self, beams: Beams, parent):
    """After a step from `beams` to children of `parent`."""
    row = jnp.arange(self.live.shape[2]) == (beams.step + 1)[:, None, None]
    return Lineage(live=jnp.where(row, parent[..., None], pick(self.live, parent)),
                   previous=self.live, last=beams.last, parent=parent)


class Tree(struct.PyTreeNode):
  """M nodes a row, in the order of the cache's slots."""

  tokens: jax.Array  # int32 [B, M]
  parents: jax.Array  # int32 [B, M], nodes
  family: jax.Array  # int32 [B, M], the node of the first two levels that it comes from
  seen: jax.Array  # bool [B, M, M], the nodes that it continues, and itself


def plant(beams: Beams, lineage: Lineage, layout: Layout) -> Tree:
  """A tree of the first two levels."""
  batch, width = lineage.last.shape
  empty = jnp.zeros((batch, layout.size), jnp.int32)
  own = jnp.broadcast_to(jnp.arange(width, dtype=jnp.int32), (batch, width))
  tree = Tree(tokens=empty, parents=empty, family=empty,
              seen=jnp.zeros((batch, layout.size, layout.size), bool))
  tree = grow(tree, 0, own, lineage.last)
  tree = grow(tree, width, lineage.parent, beams.last)
  return tree.replace(family=empty.at[:, :2 * width].set(jnp.arange(2 * width)))


def grow(tree: Tree, start, parents, tokens) -> Tree:
  """Adds the nodes from `start` on: tokens int32 [B, n] after parents int32 [B, n]."""
  count, size = parents.shape[1], tree.tokens.shape[1]
  itself = jnp.arange(size) == (start + jnp.arange(count))[:, None]
  write = lambda old, new: lax.dynamic_update_slice_in_dim(old, new, start, axis=1)
  return Tree(tokens=write(tree.tokens, tokens), parents=write(tree.parents, parents),
              family=write(tree.family, pick(tree.family, parents)),
              seen=write(tree.seen, pick(tree.seen, parents) | itself))


def feed(model, cache, tree: Tree, lineage: Lineage, step, layout: Layout, start, count: int,
         first: int):
  """One pass of a model over `count` nodes of the tree from `start` on.

  Args:
    model, cache: the `Model`, and its cache of length layout.slot + layout.size.
    tree, lineage, layout: as they are; the nodes' ancestors have been fed before or are now.
    step: int32 [B], tokens that the live beams have.
    start, count: which nodes.
    first: level from which on ancestors are read in the tree; those before in their slots.

  Returns:
    float32 logits [B, count, V], the cache, and what was written to it (see `Model.tree_step`).
  """
  batch, depth = step.shape[0], jnp.asarray(layout.depth)
  nodes = lambda values: lax.dynamic_slice_in_dim(values, start, count, axis=1)
  positions = step[:, None] - 1 + depth
  row = jnp.arange(layout.rows)
  continued = pick(jnp.concatenate([lineage.previous, lineage.live], axis=1), nodes(tree.family))
  kept = (continued[..., None] == jnp.arange(layout.width)) & (
      (row > 0) & (row < (step + first)[:, None]))[:, None, :, None]  # [B, n, R, W]
  in_tree = (depth >= first) & (positions >= 0)  # at the start there is nothing before
  visible = jnp.concatenate(
      [kept.reshape(batch, count, -1), nodes(tree.seen) & in_tree[:, None]], axis=2)
  kept_positions = jnp.broadcast_to(jnp.repeat(row - 1, layout.width), (batch, layout.slot))
  return model.tree_step(
      cache, nodes(tree.tokens), nodes(positions), jnp.full(batch, layout.slot + start, jnp.int32),
      jnp.concatenate([kept_positions, positions], axis=1), visible)
