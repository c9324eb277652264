"""How a run takes its inputs: which fit, what stands before them, and the shapes that they are padded to."""

import contextlib
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from specdec_jax import arguments
from specdec_jax.data.examples import Example
from specdec_jax.data.padding import pad_rows
from specdec_jax.errors import InputError
from specdec_jax.jobs import given_outputs
from specdec_jax.jobs.batching import Batch, bucket_lengths, key_id, loop_lengths
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
    cut_places: places of those that were cut.
    prefixes: token ids of each one's target prefix.
    targets: token ids of each one's targets, where a run scores them.
  """

  examples: Sequence[Example]
  rows: list[list[int]]
  cut: int
  prompts: bool = False
  pad_id: int = 0
  cut_places: frozenset[int] = frozenset()
  prefixes: Sequence[list[int]] = ()
  targets: Sequence[list[list[int]]] = ()


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
    max_target_prefix_len: longest target prefix in tokens, which all are padded to; 0 where none is allowed.
  """

  batch_size: int = 1
  max_input_len: int = 512
  long_inputs: str = 'refuse'
  prefix: str = ''
  buckets: Sequence[int] = ()
  max_target_prefix_len: int = 0

  def __post_init__(self):
    for name, check in CHECKS.items():
      object.__setattr__(self, name, check(name, getattr(self, name)))

  @property
  def lengths(self) -> list[int]:
    """What inputs are padded to, ascending."""
    return bucket_lengths(self.max_input_len, self.buckets)

  @property
  def loop_lengths(self) -> list[int]:
    """Of the running loops that serve all lengths, see `batching.loop_lengths`."""
    return loop_lengths(self.lengths)

  def encode(self, model: Model, examples: Iterable[Example]) -> Inputs:
    """Tokenizes prefix and text of each.

    Raises:
      InputError: no examples, an empty prompt, token ids that the model cannot read, or inputs that are too long
        (their ids are named).
    """
    examples = list(examples)
    if not examples:
      raise InputError('There are no examples to decode: the input is empty.')
    inputs, refused = self.encode_what_fits(model, examples)
    self.check_none(inputs, refused)
    return inputs

  def check_none(self, inputs: Inputs, refused: dict[int, str]) -> None:
    """InputError, where `encode_what_fits` refused any."""
    long = [i for i in refused if len(inputs.rows[i]) > self.max_input_len]
    other = next((reason for i, reason in refused.items() if i not in long), None)
    if other is not None:
      raise InputError(other)
    if long:
      shown = ', '.join(f'{inputs.examples[i].id} ({len(inputs.rows[i])})' for i in long[:10])
      raise InputError(
          f'{len(long)} of {len(inputs.rows)} inputs are longer than max_input_len = {self.max_input_len} '
          f"tokens: {shown}{', ...' if len(long) > 10 else ''}; raise max_input_len, or set "
          "long_inputs = 'cut'.")

  def encode_what_fits(self, model: Model, examples: Sequence[Example]) -> tuple[Inputs, dict[int, str]]:
    """As `encode`; what is wrong with those of the examples, by place, that cannot be decoded."""
    texts = [self.prefix + e.text for e in examples if e.tokens is None and e.text is not None]
    tokenized = iter(_tokenized(model, texts))
    prompts = model.config.decoder_only
    rows, prefixes, refused, cut = [], [], {}, []
    for i, example in enumerate(examples):
      prefix: list[int] = []
      try:
        row = next(tokenized) if example.tokens is None else self._ids(model, example)
        prefix = self._prefix(model, example)
        if not row:
          raise InputError(f'Example {example.id} is an empty prompt; a decoder-only model needs a token to go on '
                           'from.')
      except InputError as e:
        row, refused[i] = [], str(e)
      if len(row) > self.max_input_len and self.long_inputs == 'refuse':
        refused[i] = f'it has {len(row)} tokens, and max_input_len is {self.max_input_len}'
      elif len(row) > self.max_input_len:
        row = row[-self.max_input_len:] if prompts else row[:self.max_input_len - 1] + row[-1:]
        cut.append(i)
      rows.append(row)
      prefixes.append(prefix)
    return Inputs(examples, rows, len(cut), prompts, model.config.pad_id, frozenset(cut), prefixes), refused

  def _ids(self, model: Model, example: Example) -> list[int]:
    """The token ids of an example that is given by them."""
    ids = list(example.tokens or ())
    if self.prefix:
      raise InputError(f'Example {example.id} is given by token ids, before which no text can stand: leave prefix out, '
                       'and give its ids with the others.')
    given_outputs.check_known(model, ids, f'Example {example.id}')
    if model.config.decoder_only:
      return ids
    ends = ' or '.join(map(str, model.eos_ids))
    if ids[-1] not in model.eos_ids:
      raise InputError(f"Example {example.id} has token ids that end in {ids[-1]}; an encoder's input ends in EOS "
                       f'({ends}): add it.')
    if model.config.pad_id in ids:
      raise InputError(f'Example {example.id} has the token id {model.config.pad_id}, which is padding; leave it out.')
    return ids

  def _prefix(self, model: Model, example: Example) -> list[int]:
    """The ids of an example's target prefix."""
    prefix, most = given_outputs.prefix_tokens(model, example), self.max_target_prefix_len
    if prefix and not most:
      raise InputError(f'Example {example.id} has a target prefix, which this run does not take; leave it out.')
    if len(prefix) > most:
      raise InputError(f'Example {example.id} has a target prefix of {len(prefix)} tokens, and max_target_prefix_len '
                       f'is {most}.')
    return prefix

  def batches(self, inputs: Inputs, indices: Iterable[int] | None = None) -> list[Batch]:
    """Full batches over the inputs at `indices` (all by default), the longest first.

    Which batch a row falls into has no influence on its result, its bucket length
    follows from its own length alone.
    """
    made = []
    for length, members in self.groups(inputs, range(len(inputs.rows)) if indices is None else indices):
      padded = members + members[-1:] * (self.batch_size - len(members))
      made.append(self._batch(inputs, padded, length, members))
    return made

  def groups(self, inputs: Inputs, indices: Iterable[int]) -> Iterator[tuple[int, list[int]]]:
    """The length that inputs are padded to, and up to `batch_size` of that length; the longest first."""
    lengths = self.lengths
    bucket = lambda i: lengths[np.searchsorted(lengths, len(inputs.rows[i]))]
    order = sorted(indices, key=lambda i: (-len(inputs.rows[i]), i))
    for length, of_length in itertools.groupby(order, bucket):
      while members := list(itertools.islice(of_length, self.batch_size)):
        yield length, members

  def batch(self, inputs: Inputs, members: list[int], length: int) -> Batch:
    """A batch of these inputs and no others, padded to a length."""
    return self._batch(inputs, members, length, members)

  def _batch(self, inputs: Inputs, rows: list[int], length: int, members: list[int]) -> Batch:
    return Batch(indices=np.array(members), tokens=pad_rows([inputs.rows[i] for i in rows], length, inputs.pad_id),
                 ids=np.array([key_id(inputs.examples[i].id) for i in rows]),
                 lengths=np.array([len(inputs.rows[i]) for i in rows], np.int32) if inputs.prompts else None,
                 **self._prefixes([inputs.prefixes[i] for i in rows]))

  def any_batch(self, model: Model, length: int) -> Batch:
    """A batch with the shapes and types of those of inputs that are padded to `length`."""
    rows = np.arange(self.batch_size)
    lengths = np.full(self.batch_size, length, np.int32) if model.config.decoder_only else None
    return Batch(indices=rows, ids=rows, lengths=lengths,
                 tokens=np.full((self.batch_size, length), model.eos_id, np.int32),
                 **self._prefixes([[]] * self.batch_size))

  def _prefixes(self, prefixes: list[list[int]]) -> dict[str, np.ndarray]:
    """The fields of a `Batch` for target prefixes."""
    if not self.max_target_prefix_len:
      return {}
    return {'prefix': pad_rows(prefixes, self.max_target_prefix_len),
            'prefix_lengths': np.array(list(map(len, prefixes)), np.int32)}


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
