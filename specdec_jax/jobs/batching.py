"""A call of a decoder: the batch, the lengths that inputs are padded to, and what a row's random keys come from."""

import dataclasses
import zlib
from collections.abc import Sequence

from jaxtyping import Int
from numpy import ndarray

from specdec_jax.data.padding import usual_lengths

WIDER, SHORTEST_LOOP = 4, 64  # see `loop_lengths`


@dataclasses.dataclass(frozen=True)
class Batch:
  """One call of a decoder.

  Attributes:
    indices: which inputs these are; n <= B.
    tokens: int32, padded on the right; rows n to B repeat row n - 1 and are dropped afterwards.
    ids: what the random keys come from.
    lengths: int32, of a decoder-only model's prompts; None of encoder inputs.
    prefix, prefix_lengths: int32, target prefixes padded on the right, and how many tokens each has; None where the
      inputs have none.
  """

  indices: Int[ndarray, ' n']
  tokens: Int[ndarray, 'B S']
  ids: Int[ndarray, ' B']
  lengths: Int[ndarray, ' B'] | None = None
  prefix: Int[ndarray, 'B P'] | None = None
  prefix_lengths: Int[ndarray, ' B'] | None = None

  @property
  def arrays(self) -> tuple:
    """What `Running.encode` takes of it."""
    return self.tokens, self.ids, self.lengths, self.prefix, self.prefix_lengths


def middling(batches: Sequence[Batch]) -> Batch:
  """One of middling length, to time parts of a decode on."""
  return sorted(batches, key=lambda batch: batch.tokens.shape[1])[len(batches) // 2]


def bucket_lengths(max_input_len: int, buckets: Sequence[int] = ()) -> list[int]:
  """Ascending lengths that inputs are padded to, the last max_input_len; the usual ones by default."""
  lengths = set(buckets) or set(usual_lengths(max_input_len))
  return sorted(b for b in lengths if b < max_input_len) + [max_input_len]


def loop_lengths(lengths: Sequence[int]) -> list[int]:
  """Ascending lengths of the loops that serve these buckets: an input runs in the shortest that it fits.

  Each loop ends in a tail of idle rows, and each row of a loop attends over the loop's length, whatever its input's: so
  there is a loop for every factor of `WIDER` in length, and none shorter than `SHORTEST_LOOP` beside a longer one.
  """
  found = [max(lengths)]
  while shorter := [n for n in lengths if SHORTEST_LOOP <= n <= found[0] // WIDER]:
    found.insert(0, max(shorter))
  return found


def key_id(example_id) -> int:
  """The number that an example's random keys come from: its id where that is a number, else a hash."""
  text = str(example_id)
  digits = text.lstrip('0') or '0'  # Python reads no more than 4,300
  number = int(digits) if text.isascii() and text.isdecimal() and len(digits) <= 10 else -1
  return number if 0 <= number < 2**31 else zlib.crc32(text.encode())
