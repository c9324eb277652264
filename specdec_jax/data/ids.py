"""The ids of a job's examples as one number each: all of them in memory, whatever they are and however many."""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from specdec_jax.errors import InputError


class Ids:
  """Places by id: 8 bytes an example, and 16 more while places are looked up."""

  def __init__(self, numbers: np.ndarray):
    """uint64 [n], see `number`."""
    self._numbers = numbers
    self._sorted: tuple[np.ndarray, np.ndarray] | None = None

  @classmethod
  def of(cls, ids: Iterable[int | str]) -> 'Ids':
    return cls(np.fromiter(map(number, ids), np.uint64))

  def __len__(self) -> int:
    return len(self._numbers)

  def is_at(self, place: Any, example_id: Any) -> bool:
    """Whether the example at a place has this id; False where there is no such place or id."""
    known = isinstance(place, int) and 0 <= place < len(self) and isinstance(example_id, int | str)
    return known and bool(self._numbers[place] == number(example_id))

  def place(self, example_id: Any, guess: int = 0) -> int | None:
    """Where the example with an id stands, None where there is none; the guess is tried first."""
    if self.is_at(guess, example_id):
      return guess
    if not isinstance(example_id, int | str):
      return None
    if self._sorted is None:
      order = np.argsort(self._numbers)
      self._sorted = order, self._numbers[order]
    order, found = self._sorted
    wanted = np.uint64(number(example_id))
    at = int(np.searchsorted(found, wanted))
    return int(order[at]) if at < len(found) and found[at] == wanted else None

  def check(self, ids: Iterable[int | str]) -> None:
    """InputError where two of `ids`, which these are, are the same: predictions are told apart by them."""
    found, counts = np.unique(self._numbers, return_counts=True)
    doubtful, seen = found[counts > 1], set()
    if not len(doubtful):
      return
    for example_id in ids:
      if np.uint64(number(example_id)) in doubtful:
        if example_id in seen:
          raise InputError(f'Two examples have the id {example_id!r}; give each its own.')
        seen.add(example_id)
    raise InputError(f'The ids {", ".join(map(repr, sorted(map(str, seen))))} have one checksum; change one of them.')


def number(example_id: int | str) -> int:
  """64 bits of an id; those of 5 and '5' differ."""
  text = f'{type(example_id).__name__} {example_id}'.encode('utf-8', 'surrogatepass')
  return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), 'little')
