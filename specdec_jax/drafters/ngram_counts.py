"""Counts of tokens and of pairs of tokens in texts, in memory bounded by the distinct pairs."""

from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax.errors import SettingError

_TOKENS_AT_ONCE = 1_000_000
_MOST = 2 ** 31 - 1  # counts are kept as int32


def count(texts: Iterable[Sequence[int]], num_tokens: int, order: int, successors: int, eos_id: int,
          start_id: int):
  """Counts texts up to their first EOS; the start token is the context of a first token.

  Returns:
    unigram int32 [V], contexts int32 [V] (how often each token had a successor), and
    the most frequent successors of each token: their ids (V where there are fewer) and
    counts, int32 [V, K], K at most `successors`. With order 1, K = 0.
  """
  unigram = np.zeros(num_tokens, np.int64)
  codes, times = np.zeros(0, np.int64), np.zeros(0, np.int64)
  for before, after in _chunks(texts, num_tokens, eos_id, start_id):
    unigram += np.bincount(after, minlength=num_tokens)
    if order == 2:
      new, new_times = np.unique(before * num_tokens + after, return_counts=True)
      codes, place = np.unique(np.concatenate([codes, new]), return_inverse=True)
      times = np.bincount(place, np.concatenate([times, new_times])).astype(np.int64)
  if not unigram.any():
    raise SettingError('There are no texts to count.')
  before, after = np.divmod(codes, num_tokens)
  contexts = np.bincount(before, times, minlength=num_tokens).astype(np.int64)
  ids, counts = _most_frequent(before, after, times, num_tokens, successors)
  if np.max(unigram) > _MOST:
    raise SettingError(f'A token occurs more than {_MOST} times; fit on fewer texts.')
  return tuple(x.astype(np.int32) for x in (unigram, contexts, ids, counts))


def _chunks(texts, num_tokens, eos_id, start_id):
  """(token before, token) int64 [M] each, some million at a time."""
  before, after = [], []
  for number, text in enumerate(texts):
    ids = [int(t) for t in text]
    ids = ids[:ids.index(eos_id) + 1] if eos_id in ids else ids
    if ids and not 0 <= min(ids) <= max(ids) < num_tokens:
      raise SettingError(f'Text {number} has ids {min(ids)} to {max(ids)}, the table {num_tokens} '
                       'tokens; was the text encoded with another vocabulary?')
    before += [start_id, *ids[:-1]] if ids else []
    after += ids
    if len(after) >= _TOKENS_AT_ONCE:
      yield np.array(before, np.int64), np.array(after, np.int64)
      before, after = [], []
  if after:
    yield np.array(before, np.int64), np.array(after, np.int64)


def _most_frequent(before, after, times, num_tokens, most):
  """Each context's successors, the most frequent first, of equal ones the lower ids: int64 [V, K]."""
  order = np.lexsort((after, -times, before))
  before, after, times = before[order], after[order], times[order]
  rank = np.arange(len(before)) - np.searchsorted(before, before)
  kept = rank < most
  width = int(rank[kept].max(initial=-1)) + 1
  ids = np.full((num_tokens, width), num_tokens)
  counts = np.zeros((num_tokens, width), np.int64)
  ids[before[kept], rank[kept]] = after[kept]
  counts[before[kept], rank[kept]] = times[kept]
  return ids, counts
