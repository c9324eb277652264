"""Bucketed batches of token pairs, addressed by step so that a resume is exact."""

import dataclasses

import numpy as np

from specdec_jax.data.vocabulary import pad_rows

Pair = tuple[list[int], list[int]]
BUCKETS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclasses.dataclass
class Batches:
  """Batches of pairs that are near in length, in an order fixed by (seed, epoch).

  Attributes:
    pairs: (encoder ids, decoder target ids), both ending in EOS.
    tokens_per_batch: padded target tokens in a batch; rows = tokens / bucket length.
    seed: of the order.
    buckets: lengths that batches are padded to; longer pairs are left out.
  """

  pairs: list[Pair]
  tokens_per_batch: int = 2048
  seed: int = 0
  buckets: tuple[int, ...] = BUCKETS

  def __post_init__(self):
    lengths = np.array([max(len(s), len(t)) for s, t in self.pairs])
    self._bucket = np.searchsorted(self.buckets, lengths)
    self.left_out = int((self._bucket == len(self.buckets)).sum())
    self._members = [np.flatnonzero(self._bucket == b) for b in range(len(self.buckets))]
    self.per_epoch = sum(-(-len(m) // self._rows(b)) for b, m in enumerate(self._members))
    if not self.per_epoch:
      raise ValueError(f'No training pair fits the longest bucket ({self.buckets[-1]} tokens).')

  def _rows(self, bucket: int) -> int:
    return max(1, self.tokens_per_batch // self.buckets[bucket])

  def _epoch(self, epoch: int) -> list[tuple[int, np.ndarray]]:
    rng = np.random.default_rng((self.seed, epoch))
    batches = []
    for b, members in enumerate(self._members):
      shuffled = rng.permutation(members)
      batches += [(b, shuffled[i:i + self._rows(b)]) for i in range(0, len(shuffled), self._rows(b))]
    return [batches[i] for i in rng.permutation(len(batches))]

  def from_step(self, step: int):
    """Yields batches for step, step + 1, ... without end."""
    epoch, index = divmod(step, self.per_epoch)
    while True:
      for bucket, members in self._epoch(epoch)[index:]:
        yield self._make(bucket, members)
      epoch, index = epoch + 1, 0

  def once(self):
    """Yields every batch of the first epoch: for validation."""
    for bucket, members in self._epoch(0):
      yield self._make(bucket, members)

  def _make(self, bucket: int, members) -> dict[str, np.ndarray]:
    length, rows = self.buckets[bucket], self._rows(bucket)
    fill = [[]] * (rows - len(members))
    return {
        'encoder_tokens': pad_rows([self.pairs[i][0] for i in members] + fill, length),
        'targets': pad_rows([self.pairs[i][1] for i in members] + fill, length),
    }
