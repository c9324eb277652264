"""Rows of token ids of different lengths as one array, and the lengths that inputs are padded to."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32

SHORTEST = 16  # of the usual lengths


def usual_lengths(longest: int) -> list[int]:
  """Powers of two from 16 to the first that holds `longest`: few lengths, so that few programs are compiled."""
  return [SHORTEST << i for i in range(max(1, (longest - 1).bit_length() - 3))]


def padded_length(length: int, buckets: Sequence[int] | None = None) -> int:
  """The least of the lengths that holds so many tokens.

  Args:
    length: of the longest row.
    buckets: lengths; beyond them, and where they are empty, nothing is padded. None: the usual ones.
  """
  return min((b for b in (usual_lengths(length) if buckets is None else buckets) if b >= length), default=length)


def pad_rows(rows: Sequence[Sequence[int]], length: int | None = None, pad_id: int = 0) -> Int32[np.ndarray, 'B S']:
  """Lists of ids -> int32 [B, length or the longest], pad_id on the right."""
  length = length or max(map(len, rows), default=0)
  out = np.full((len(rows), length), pad_id, np.int32)
  for i, row in enumerate(rows):
    out[i, :len(row)] = row
  return out
