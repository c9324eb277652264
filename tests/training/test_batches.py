"""Batches: every pair once an epoch, static shapes, addressed by step."""

import itertools

import numpy as np
import pytest

from specdec_jax.training.batches import Batches


def make(lengths, **settings):
  pairs = [([2 + i % 50] * (n - 1) + [1], [3 + i] * (n - 1) + [1]) for i, n in enumerate(lengths)]
  return Batches(pairs, **{'tokens_per_batch': 64, 'buckets': (4, 8, 16), **settings})


LENGTHS = [2, 3, 4, 5, 8, 9, 16, 2, 7, 12] * 5


def rows(batch):
  return [tuple(r) for r in batch['targets'] if r.any()]


def test_an_epoch_holds_every_pair_once():
  batches = make(LENGTHS)
  seen = [r for b in itertools.islice(batches.from_step(0), batches.per_epoch) for r in rows(b)]
  assert len(seen) == len(LENGTHS) == len({r[0] for r in seen})


def test_shapes_are_few_and_hold_the_token_budget():
  batches = make(LENGTHS)
  shapes = {b['targets'].shape for b in batches.once()}
  assert shapes == {(16, 4), (8, 8), (4, 16)}


def test_sources_and_targets_have_buckets_of_their_own():
  pairs = [([2] * (s - 1) + [1], [3] * (t - 1) + [1]) for s, t in [(30, 3), (31, 4), (17, 8), (9, 9), (40, 3)]]
  batches = Batches(pairs, tokens_per_batch=64, buckets=(4, 8), source_buckets=(16, 32))
  assert {(b['encoder_tokens'].shape, b['targets'].shape) for b in batches.once()} == {
      ((2, 32), (2, 4)), ((2, 32), (2, 8))}
  assert batches.left_out == 2 and batches.per_epoch == 2
  assert sum(len(rows(b)) for b in batches.once()) == 3
  for b in batches.once():
    assert all(len(np.trim_zeros(row)) >= 17 for row in b['encoder_tokens'] if row.any())


def test_rows_are_a_multiple():
  shapes = {b['targets'].shape for b in make(LENGTHS, rows_multiple=6).once()}
  assert shapes == {(12, 4), (6, 8), (6, 16)}


def test_a_step_can_be_resumed_anywhere():
  batches = make(LENGTHS)
  whole = list(itertools.islice(batches.from_step(0), 2 * batches.per_epoch + 2))
  for step in (0, 1, batches.per_epoch - 1, batches.per_epoch, batches.per_epoch + 3):
    resumed = list(itertools.islice(make(LENGTHS).from_step(step), len(whole) - step))
    for a, b in zip(whole[step:], resumed, strict=True):
      np.testing.assert_array_equal(a['targets'], b['targets'])
      np.testing.assert_array_equal(a['encoder_tokens'], b['encoder_tokens'])


def test_epochs_and_seeds_differ_in_order():
  first = lambda b, step: next(b.from_step(step))['targets'].tolist()
  batches = make(LENGTHS)
  assert first(batches, 0) != first(batches, batches.per_epoch)
  assert first(batches, 0) != first(make(LENGTHS, seed=1), 0)


def test_pairs_longer_than_the_last_bucket_are_counted():
  assert make([3, 17, 40]).left_out == 2
  with pytest.raises(ValueError, match='longest bucket'):
    make([17, 40])
