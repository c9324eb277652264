"""What a decode returns: tokens, how each row ended, and the counts that explain the speed."""

import enum

import jax
from flax import struct


class Status(enum.IntEnum):
  """How a row ended."""

  RUNNING = 0
  EOS = 1
  LENGTH = 2  # max_decode_len reached
  NON_FINITE = 3  # the target's logits or distribution hold NaN or infinity; the text up to there stands


class Stats(struct.PyTreeNode):
  """Counts of one decode, a row each.

  Attributes:
    target_calls: passes of the target that the row needed, int32 [B].
    drafted: draft tokens that could still be emitted, int32 [B]: none past
      max_decode_len and none behind an EOS that was emitted.
    accepted: those of them that were emitted, int32 [B].
    emitted: tokens of the result, EOS included, int32 [B].
    accepted_by_position: accepted by place in the block, int32 [B, gamma].
    drafted_by_position: drafted by place in the block, int32 [B, gamma].
  """

  target_calls: jax.Array
  drafted: jax.Array
  accepted: jax.Array
  emitted: jax.Array
  accepted_by_position: jax.Array
  drafted_by_position: jax.Array

  @property
  def acceptance_rate(self) -> float:
    """accepted / drafted over all rows; not alpha, which is Cor. 3.6's estimate."""
    return float(self.accepted.sum() / max(self.drafted.sum(), 1))

  @property
  def tokens_per_call(self) -> float:
    """emitted / target calls over all rows."""
    return float(self.emitted.sum() / max(self.target_calls.sum(), 1))


class Trace(struct.PyTreeNode):
  """Every iteration of a decode; a row's own are its first `Stats.target_calls`, 0 behind them.

  Attributes:
    drafts: what was proposed, int32 [B, I, gamma]; I is the most iterations of a row.
    num_accepted: how many of them the rule accepted, int32 [B, I].
    next_token: what the target put behind these, int32 [B, I].
    emitted: tokens that the row got, int32 [B, I]: num_accepted + 1, or fewer where
      EOS, the budget or a distribution that is not finite cut the block.
  """

  drafts: jax.Array
  num_accepted: jax.Array
  next_token: jax.Array
  emitted: jax.Array


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
