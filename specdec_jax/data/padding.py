"""Rows of token ids of different lengths as one array."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32


def pad_rows(rows: Sequence[Sequence[int]], length: int | None = None, pad_id: int = 0) -> Int32[np.ndarray, 'B S']:
  """Lists of ids -> int32 [B, length or the longest], pad_id on the right."""
  length = length or max(map(len, rows), default=0)
  out = np.full((len(rows), length), pad_id, np.int32)
  for i, row in enumerate(rows):
    out[i, :len(row)] = row
  return out
