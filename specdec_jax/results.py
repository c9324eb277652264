"""What a decode returns: tokens, how each row ended, and the counts that explain the speed."""

import enum

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.tree import Tree


class Status(enum.IntEnum):
  """How a row ended."""

  RUNNING = 0
  EOS = 1
  LENGTH = 2  # max_decode_len reached
  NON_FINITE = 3  # the target's logits or distribution hold NaN or infinity; the text up to there stands


def acceptance_rate(accepted, drafted) -> float | None:
  """accepted / drafted, None where nothing was drafted; not alpha, which is Cor. 3.6's estimate."""
  return float(accepted) / float(drafted) if drafted else None


class Stats(struct.PyTreeNode):
  """Counts of one decode, a row each; D is the depth of the draft tree (gamma of a chain), C its most children.

  Attributes:
    target_calls: passes of the target that the row needed, int32 [B].
    drafted: draft tokens that could still be emitted, int32 [B]: none past
      max_decode_len and none after an EOS that was emitted. Of a tree all nodes of these levels.
    accepted: those of them that were emitted, int32 [B].
    emitted: tokens of the result, EOS included, int32 [B].
    accepted_by_position: accepted by place in the block, int32 [B, D].
    drafted_by_position: drafted by place in the block, int32 [B, D].
    accepted_by_rank: accepted by rank among the candidates of one place, int32 [B, C].
    offered_by_rank: how often there was a candidate of that rank where the rule came to, int32 [B, C].
  """

  target_calls: jax.Array
  drafted: jax.Array
  accepted: jax.Array
  emitted: jax.Array
  accepted_by_position: jax.Array
  drafted_by_position: jax.Array
  accepted_by_rank: jax.Array
  offered_by_rank: jax.Array

  @classmethod
  def zeros(cls, batch: int, tree: Tree | None) -> 'Stats':
    """Nothing counted yet; without a tree D and C are 0."""
    zeros = lambda *shape: jnp.zeros((batch, *shape), jnp.int32)
    depth, children = (tree.depth, tree.max_children) if tree else (0, 0)
    return cls(target_calls=zeros(), drafted=zeros(), accepted=zeros(), emitted=zeros(),
               accepted_by_position=zeros(depth), drafted_by_position=zeros(depth),
               accepted_by_rank=zeros(children), offered_by_rank=zeros(children))

  @property
  def acceptance_rate(self) -> float | None:
    """See `acceptance_rate`; over all rows."""
    return acceptance_rate(self.accepted.sum(), self.drafted.sum())

  @property
  def acceptance_by_rank(self) -> tuple[float, ...]:
    """Over all rows: how often the candidate of each rank was the one accepted, where there was one."""
    offered = self.offered_by_rank.sum(0)
    return tuple((self.accepted_by_rank.sum(0) / np.maximum(offered, 1)).tolist())

  @property
  def tokens_per_call(self) -> float:
    """emitted / target calls over all rows."""
    return float(self.emitted.sum() / np.maximum(self.target_calls.sum(), 1))


class Trace(struct.PyTreeNode):
  """Every iteration of a decode; a row's own are its first `Stats.target_calls`, 0 after them.

  Attributes:
    drafts: what was proposed, int32 [B, I, M], a token for each node of the tree (gamma of a chain); I is the most
      iterations of a row.
    path: the nodes that were accepted, int32 [B, I, D], of which the first num_accepted count.
    num_accepted: how many of them the rule accepted, int32 [B, I].
    next_token: what the target put after these, int32 [B, I].
    emitted: tokens that the row got, int32 [B, I]: num_accepted + 1, or fewer where
      EOS, the budget or a distribution that is not finite cut the block.
  """

  drafts: jax.Array
  path: jax.Array
  num_accepted: jax.Array
  next_token: jax.Array
  emitted: jax.Array

  @classmethod
  def zeros(cls, batch: int, iterations: int, tree: Tree | None) -> 'Trace':
    """Room for so many iterations."""
    zeros = lambda *shape: jnp.zeros((batch, iterations, *shape), jnp.int32)
    return cls(drafts=zeros(tree.num_nodes if tree else 0), path=zeros(tree.depth if tree else 0),
               num_accepted=zeros(), next_token=zeros(), emitted=zeros())


class Result(struct.PyTreeNode):
  """A finished decode, on the host.

  Attributes:
    tokens: int32 [B, max_decode_len], 0 after the end.
    lengths: int32 [B], EOS counted.
    status: int32 [B], see `Status`.
    scores: float32 [B], log-probability (nats) of the emitted tokens under the
      target's distribution over its vocabulary at temperature 1.
    stats: see `Stats`.
    trace: see `Trace`; None unless it was asked for.
  """

  tokens: jax.Array
  lengths: jax.Array
  status: jax.Array
  scores: jax.Array
  stats: Stats
  trace: Trace | None = None

  def with_short_trace(self) -> 'Result':
    """The trace ends with the last iteration."""
    most = self.stats.target_calls.max()
    return self.replace(trace=jax.tree.map(lambda x: x[:, :most], self.trace))
