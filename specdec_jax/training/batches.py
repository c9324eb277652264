"""Bucketed batches of token pairs, addressed by step so that a resume is exact."""

import dataclasses
import itertools
from typing import Any

import numpy as np

from specdec_jax.data.padding import pad_rows
from specdec_jax.errors import SettingError

Pair = tuple[Any, Any]  # ids of source and target: lists or arrays of int
BUCKETS = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)


@dataclasses.dataclass
class Batches:
  """Batches of pairs that are near in length, in an order fixed by (seed, epoch).

  Attributes:
    pairs: (encoder ids, decoder target ids), both ending in EOS.
    tokens_per_batch: padded tokens in a batch, of its sources or its targets, whichever are
      longer; rows = tokens / length.
    seed: of the order.
    buckets: lengths that targets are padded to; longer pairs are left out.
    source_buckets: the sources' own; without any, a pair's two sides share a bucket.
    rows_multiple: batches have a multiple of so many rows.
    pad_id: what sources are padded with; targets are padded with 0.
  """

  pairs: list[Pair]
  tokens_per_batch: int = 2048
  seed: int = 0
  buckets: tuple[int, ...] = BUCKETS
  source_buckets: tuple[int, ...] = ()
  rows_multiple: int = 1
  pad_id: int = 0

  def __post_init__(self):
    self._shapes = sorted(itertools.product(self.source_buckets, self.buckets), key=sum) if (
        self.source_buckets) else [(b, b) for b in self.buckets]
    lengths = np.array([(len(s), len(t)) for s, t in self.pairs])
    fits = np.stack([(lengths <= shape).all(1) for shape in self._shapes])
    smallest = np.where(fits.any(0), fits.argmax(0), len(fits))
    self._members = [np.flatnonzero(smallest == b) for b in range(len(fits))]
    self.left_out = int((smallest == len(fits)).sum())
    self.per_epoch = sum(-(-len(m) // self._rows(b)) for b, m in enumerate(self._members))
    if not self.per_epoch:
      source, target = (max(lengths) for lengths in zip(*self._shapes))
      raise SettingError(f'No training pair fits the longest buckets ({source} tokens of a source, '
                       f'{target} of a target).')

  def _rows(self, bucket: int) -> int:
    rows = self.tokens_per_batch // max(self._shapes[bucket])
    return max(1, rows // self.rows_multiple) * self.rows_multiple

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
    rows = self._rows(bucket)
    fill = [[]] * (rows - len(members))
    sources, targets = zip(*(self.pairs[i] for i in members))
    source_length, target_length = self._shapes[bucket]
    return {'encoder_tokens': pad_rows([*sources, *fill], source_length, self.pad_id),
            'targets': pad_rows([*targets, *fill], target_length)}
