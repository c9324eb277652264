"""Inputs to batches of few shapes: sorted by length, padded to bucket lengths, always full."""

import contextlib
import dataclasses
import itertools
import zlib
from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax.data.padding import pad_rows
from specdec_jax.errors import SettingError
from specdec_jax.jobs.progress import Progress

SHORTEST_BUCKET = 16
TEXTS_AT_ONCE = 1024  # given to the tokenizer
MANY = 10_000  # texts that take long enough for a progress line


@dataclasses.dataclass(frozen=True)
class Batch:
  """One call of a decoder.

  Attributes:
    indices: int [n], which inputs these are; n <= B.
    tokens: int32 [B, S], padded on the right; rows n to B repeat row n - 1 and are dropped afterwards.
    ids: int64 [B], what the random keys come from.
    lengths: int32 [B], of a decoder-only model's prompts; None of encoder inputs.
  """

  indices: np.ndarray
  tokens: np.ndarray
  ids: np.ndarray
  lengths: np.ndarray | None = None


@dataclasses.dataclass(frozen=True)
class Inputs:
  """Encoded examples.

  Attributes:
    examples: as read.
    rows: token ids of each, EOS last in an encoder's.
    cut: how many were longer than the limit and cut.
    prompts: whether they are a decoder-only model's.
    pad_id: what the model's inputs are padded with.
  """

  examples: Sequence
  rows: list[list[int]]
  cut: int
  prompts: bool = False
  pad_id: int = 0


def encode(model, examples: Iterable, max_input_len: int, long_inputs: str = 'refuse',
           prefix: str = '') -> Inputs:
  """Tokenizes prefix and text; inputs above max_input_len tokens (EOS counted) are refused or cut.

  Raises:
    ValueError: no examples, an unknown long_inputs, or inputs too long (their ids are named).
  """
  if long_inputs not in ('refuse', 'cut'):
    raise SettingError(f"long_inputs is '{long_inputs}'; use 'refuse' or 'cut'.")
  if max_input_len < 2:
    raise SettingError(f'max_input_len is {max_input_len}; it must be at least 2 (a token and EOS).')
  examples = list(examples)
  if not examples:
    raise SettingError('There are no examples to decode: the input is empty.')
  rows = _tokenized(model, [prefix + e.text for e in examples])
  long = [i for i, row in enumerate(rows) if len(row) > max_input_len]
  if long and long_inputs == 'refuse':
    shown = ', '.join(f'{examples[i].id} ({len(rows[i])})' for i in long[:10])
    raise SettingError(
        f'{len(long)} of {len(rows)} inputs are longer than max_input_len = {max_input_len} '
        f"tokens: {shown}{', ...' if len(long) > 10 else ''}; raise max_input_len, or set "
        "long_inputs = 'cut'.")
  prompts = model.config.decoder_only
  empty = [e.id for e, row in zip(examples, rows) if not row]
  if empty:
    raise SettingError(f'Example {empty[0]} is an empty prompt; a decoder-only model needs a token to go on from.')
  for i in long:  # a prompt keeps its end, an encoder's input its beginning and EOS
    rows[i] = rows[i][-max_input_len:] if prompts else rows[i][:max_input_len - 1] + rows[i][-1:]
  return Inputs(examples, rows, len(long), prompts, model.config.pad_id)


def _tokenized(model, texts: list[str]) -> list[list[int]]:
  """The ids of each text, with a progress line where there are many."""
  rows = []
  show = Progress(len(texts), 'tokenizing') if len(texts) >= MANY else contextlib.nullcontext()
  with show as progress:
    for start in range(0, len(texts), TEXTS_AT_ONCE):
      found = model.encode_rows(texts[start:start + TEXTS_AT_ONCE])
      rows += found
      if progress is not None:
        progress.add(len(found))
  return rows


def batches(inputs: Inputs, batch_size: int, max_input_len: int, indices=None,
            buckets: Sequence[int] = ()) -> list[Batch]:
  """Full batches over the inputs at `indices` (all by default), the longest first.

  Which batch a row falls into has no influence on its result, its bucket length
  follows from its own length alone.
  """
  if batch_size < 1:
    raise SettingError(f'batch_size is {batch_size}; it must be at least 1.')
  lengths = bucket_lengths(max_input_len, buckets)
  indices = range(len(inputs.rows)) if indices is None else indices
  bucket = lambda i: lengths[np.searchsorted(lengths, len(inputs.rows[i]))]
  order = sorted(indices, key=lambda i: (-len(inputs.rows[i]), i))
  made = []
  for length, group in itertools.groupby(order, bucket):
    group = list(group)
    for start in range(0, len(group), batch_size):
      members = group[start:start + batch_size]
      padded = members + members[-1:] * (batch_size - len(members))
      made.append(Batch(indices=np.array(members),
                        tokens=pad_rows([inputs.rows[i] for i in padded], length, inputs.pad_id),
                        ids=np.array([key_id(inputs.examples[i].id) for i in padded]),
                        lengths=(np.array([len(inputs.rows[i]) for i in padded], np.int32)
                                 if inputs.prompts else None)))
  return made


def bucket_lengths(max_input_len: int, buckets: Sequence[int] = ()) -> list[int]:
  """Ascending lengths that inputs are padded to; powers of two from 16 by default."""
  if buckets:
    if any(b < 1 or b != int(b) for b in buckets):
      raise SettingError(f'buckets are {list(buckets)}; they must be whole numbers of at least 1.')
    lengths = {int(b) for b in buckets}
  else:
    lengths = {SHORTEST_BUCKET << i for i in range(max_input_len.bit_length())}
  return sorted(b for b in lengths if b < max_input_len) + [max_input_len]


def key_id(example_id) -> int:
  """The number behind an example's random keys: its id where that is a number, else a hash."""
  text = str(example_id)
  digits = text.lstrip('0') or '0'  # Python reads no more than 4,300
  number = int(digits) if text.isascii() and text.isdecimal() and len(digits) <= 10 else -1
  return number if 0 <= number < 2**31 else zlib.crc32(text.encode())
