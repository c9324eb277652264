"""Other programs' texts, counted as ours."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from specdec_jax.results import Result, Stats, Status


def as_result(tokens: Any, eos_ids: Sequence[int], max_decode_len: int | None = None) -> Result:
  """One-token texts, up to the first EOS, EOS included.

  Args:
    tokens: int [B, T], or B lists of ids; what follows an EOS is dropped.
    eos_ids: ids that end a text.
    max_decode_len: columns of the result; T, of lists the longest, by default.

  Returns:
    With NaN for scores, which these programs do not return.
  """
  rows = [_text(list(map(int, row)), eos_ids, max_decode_len) for row in tokens]
  lengths = np.array([len(row) for row in rows], np.int32)
  made = np.zeros((len(rows), max_decode_len or max(len(row) for row in tokens)), np.int32)
  for i, row in enumerate(rows):
    made[i, :len(row)] = row
  ended = [bool(row) and row[-1] in eos_ids for row in rows]
  stats = jax.device_get(Stats.zeros(len(rows), None)).replace(target_calls=lengths, emitted=lengths)
  found: dict[str, Any] = dict(
      tokens=made, lengths=lengths, status=np.where(ended, Status.EOS, Status.LENGTH).astype(np.int32),
      scores=np.full(len(rows), np.nan, np.float32), stats=stats)
  return Result(**found)


def _text(row: list[int], eos_ids: Sequence[int], most: int | None) -> list[int]:
  end = next((i + 1 for i, token in enumerate(row) if token in eos_ids), len(row))
  return row[:end if most is None else min(end, most)]
