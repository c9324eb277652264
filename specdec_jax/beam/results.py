"""What a beam search returns."""

import jax
import numpy as np
from flax import struct

from specdec_jax.results import acceptance_rate


class BeamStats(struct.PyTreeNode):
  """Counts of one search, a row each.

  Attributes:
    target_calls: passes of the target that the row needed, int32 [B].
    steps: by how many tokens its beams grew, int32 [B]; the plain search needs a call for each.
    drafted: drafted steps that could still be taken, int32 [B]: none past max_decode_len
      and none after the end of the search.
    accepted: those of them that were taken, int32 [B]: all of the target's live beams were
      among the drafted ones.
  """

  target_calls: jax.Array
  steps: jax.Array
  drafted: jax.Array
  accepted: jax.Array

  @property
  def acceptance_rate(self) -> float | None:
    """accepted / drafted steps over all rows, None where nothing was drafted."""
    return acceptance_rate(self.accepted.sum(), self.drafted.sum())

  @property
  def steps_per_call(self) -> float:
    """Steps / target calls over all rows."""
    return float(self.steps.sum() / np.maximum(self.target_calls.sum(), 1))


class BeamResult(struct.PyTreeNode):
  """A finished search, on the host. Beams are in ascending order of score, best last.

  Attributes:
    tokens: int32 [B, W, L], EOS included, 0 after it.
    lengths: int32 [B, W], EOS counted, 0 where a slot is empty.
    scores: float32 [B, W]: log-probability (nats) / ((5 + length) / 6) ** alpha, or where a
      row finished no text the log-probabilities of its live beams; -1e7 where a slot is empty.
    status: int32 [B], see `Status`; EOS is a search that no live beam could better any more.
    stats: see `BeamStats`.
  """

  tokens: jax.Array
  lengths: jax.Array
  scores: jax.Array
  status: jax.Array
  stats: BeamStats
