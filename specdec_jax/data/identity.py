"""Whether two vocabularies mean the same by an id: compared by their pieces, not by their files."""

import functools
import hashlib
from typing import Any


class ByPieces:
  """Vocabularies that are equal where all their ids are the same pieces, whatever files they were read from.

  Attributes:
    pieces: the text of each id, as in `Tokenizer`.
  """

  pieces: Any

  @functools.cached_property
  def identity(self) -> str:
    """Of the list of pieces, hexadecimal."""
    return digest(self.pieces)

  def __eq__(self, other):
    return self is other or (isinstance(other, ByPieces) and self.identity == other.identity)

  def __hash__(self):
    return hash(self.identity)


def digest(pieces) -> str:
  """Of the meaning of ids 0, 1, ...; hexadecimal."""
  return hashlib.sha256('\0'.join(pieces).encode('utf-8', 'surrogatepass')).hexdigest()


def difference(ours: Any, theirs: Any, count: int | None = None) -> int | None:
  """The first id that means something else; None where the vocabularies agree.

  Args:
    ours, theirs: two of `Tokenizer`.
    count: ids from this on are not compared; nor are those that only one vocabulary has.
  """
  if ours is theirs or ours.digest == theirs.digest:
    return None
  pairs = zip(ours.pieces[:count], theirs.pieces[:count])
  return next((i for i, (a, b) in enumerate(pairs) if a != b), None)
