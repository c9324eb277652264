"""How a run takes its inputs: which fit, what stands before them, and the shapes that they are padded to."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.data.padding import pad_rows
from specdec_jax.errors import InputError
from specdec_jax.jobs.batching import Batch, bucket_lengths, key_id
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model

TEXTS_AT_ONCE = 1024  # given to the tokenizer
MANY = 10_000  # texts that take long enough for a progress line

# Of the fields of InputOptions: a run checks its settings of the same names by them.
CHECKS = {
    'batch_size': arguments.at_least(1), 'max_input_len': arguments.at_least(2),
    'long_inputs': arguments.text_of(('refuse', 'cut')), 'prefix': arguments.text,
    'buckets': arguments.tuple_of(arguments.at_least(1), empty=True)}


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

  examples: Sequence[Example]
  rows: list[list[int]]
  cut: int
  prompts: bool = False
  pad_id: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputOptions:
  """The settings that all runs over inputs share.

  Attributes:
    batch_size: rows of a device call; no result depends on it.
    max_input_len: longest input in tokens, EOS counted.
    long_inputs: 'refuse' longer ones, naming them, or 'cut' them, counting. A prompt keeps its end, an
      encoder's input its beginning and EOS.
    prefix: put before every input, such as T5's 'translate English to German: '.
    buckets: lengths that inputs are padded to, a compilation each; powers of two from 16 by default.
  """

  batch_size: int = 1
  max_input_len: int = 512
  long_inputs: str = 'refuse'
  prefix: str = ''
  buckets: Sequence[int] = ()

  def __post_init__(self):
    for name, check in CHECKS.items():
      object.__setattr__(self, name, check(name, getattr(self, name)))

  @property
  def lengths(self) -> list[int]:
    """What inputs are padded to, ascending."""
    return bucket_lengths(self.max_input_len, self.buckets)

  def encode(self, model: Model, examples: Iterable[Example]) -> Inputs:
    """Tokenizes prefix and text of each, or takes its token ids.

    Raises:
      InputError: no examples, an empty prompt, token ids that the model cannot read, or inputs that are too long
        (their ids are named).
    """
    examples = list(examples)
    if not examples:
      raise InputError('There are no examples to decode: the input is empty.')
    texts = [self.prefix + e.text for e in examples if e.tokens is None and e.text is not None]
    tokenized = iter(_tokenized(model, texts))
    rows = [next(tokenized) if e.tokens is None else self._ids(model, e) for e in examples]
    prompts = model.config.decoder_only
    empty = [e.id for e, row in zip(examples, rows) if not row]
    if empty:
      raise InputError(f'Example {empty[0]} is an empty prompt; a decoder-only model needs a token to go on from.')
    long = [i for i, row in enumerate(rows) if len(row) > self.max_input_len]
    if long and self.long_inputs == 'refuse':
      shown = ', '.join(f'{examples[i].id} ({len(rows[i])})' for i in long[:10])
      raise InputError(
          f'{len(long)} of {len(rows)} inputs are longer than max_input_len = {self.max_input_len} '
          f"tokens: {shown}{', ...' if len(long) > 10 else ''}; raise max_input_len, or set "
          "long_inputs = 'cut'.")
    for i in long:
      rows[i] = rows[i][-self.max_input_len:] if prompts else rows[i][:self.max_input_len - 1] + rows[i][-1:]
    return Inputs(examples, rows, len(long), prompts, model.config.pad_id)

  def _ids(self, model: Model, example: Example) -> list[int]:
    """The token ids of an example that is given by them."""
    ids = list(example.tokens or ())
    if self.prefix:
      raise InputError(f'Example {example.id} is given by token ids, before which no text can stand: leave prefix out, '
                       'and give its ids with the others.')
    beyond = next((i for i in ids if i >= model.num_tokens), None)
    if beyond is not None:
      raise InputError(f'Example {example.id} has the token id {beyond}, but the model has ids 0 to '
                       f'{model.num_tokens - 1}; were they made with another vocabulary?')
    if model.config.decoder_only:
      return ids
    ends = ' or '.join(map(str, model.eos_ids))
    if ids[-1] not in model.eos_ids:
      raise InputError(f"Example {example.id} has token ids that end in {ids[-1]}; an encoder's input ends in EOS "
                       f'({ends}): add it.')
    if model.config.pad_id in ids:
      raise InputError(f'Example {example.id} has the token id {model.config.pad_id}, which is padding; leave it out.')
    return ids

  def batches(self, inputs: Inputs, indices: Iterable[int] | None = None) -> list[Batch]:
    """Full batches over the inputs at `indices` (all by default), the longest first.

    Which batch a row falls into has no influence on its result, its bucket length
    follows from its own length alone.
    """
    lengths = self.lengths
    bucket = lambda i: lengths[np.searchsorted(lengths, len(inputs.rows[i]))]
    order = sorted(range(len(inputs.rows)) if indices is None else indices, key=lambda i: (-len(inputs.rows[i]), i))
    made = []
    for length, of_length in itertools.groupby(order, bucket):
      group = list(of_length)
      for start in range(0, len(group), self.batch_size):
        members = group[start:start + self.batch_size]
        padded = members + members[-1:] * (self.batch_size - len(members))
        made.append(Batch(indices=np.array(members),
                          tokens=pad_rows([inputs.rows[i] for i in padded], length, inputs.pad_id),
                          ids=np.array([key_id(inputs.examples[i].id) for i in padded]),
                          lengths=(np.array([len(inputs.rows[i]) for i in padded], np.int32)
                                   if inputs.prompts else None)))
    return made

  def any_batch(self, model: Model, length: int) -> Batch:
    """A batch with the shapes and types of those of inputs that are padded to `length`."""
    rows = np.arange(self.batch_size)
    lengths = np.full(self.batch_size, length, np.int32) if model.config.decoder_only else None
    return Batch(indices=rows, ids=rows, lengths=lengths,
                 tokens=np.full((self.batch_size, length), model.eos_id, np.int32))


def _tokenized(model: Model, texts: list[str]) -> list[list[int]]:
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
