"""Inputs from text, TSV and JSON-lines files, gzipped or not, local or gs://."""

import array
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from specdec_jax import arguments, checks, paths
from specdec_jax.data import ids, target_texts
from specdec_jax.data.lines import BadLine, Faults, check_text, decoded, json_object, kind_of, raw_lines
from specdec_jax.errors import InputError

Field = int | str
_IF_THERE = ('id', 'target_prefix')  # keys of JSON lines that are read wherever they are


@dataclasses.dataclass(frozen=True)
class Example:
  """One input.

  Attributes:
    id: the file's own, else the line's number, from 0.
    text: what the model reads; None where only its ids are known.
    reference: what a person would have written, where it is known.
    tokens: the ids that the model reads in place of the text's, those of an encoder-decoder with EOS.
    target_prefix: what an encoder-decoder's output begins with, a text or token ids without EOS; None is nothing.
    targets: outputs to score, each a text or token ids.
    label: which of the targets is right, from 0, where it is known.

  Raises:
    InputError: the id is no whole number and no text, a text is none, or there is neither text nor ids.
  """

  id: int | str
  text: str | None
  reference: str | None = None
  tokens: tuple[int, ...] | None = None
  target_prefix: target_texts.TextOrIds | None = None
  targets: tuple[target_texts.TextOrIds, ...] = ()
  label: int | None = None

  def __post_init__(self):
    try:
      _check(self.id, self.text, self.reference, self.tokens)
      if self.target_prefix is not None:
        target_texts.text_or_ids(self.target_prefix, 'target prefix')
      if self.targets:
        target_texts.texts_or_ids(self.targets)
      if self.label is not None:
        target_texts.label(self.label, self.targets)
    except BadLine as e:
      raise InputError(f'Example {checks.shown(self.id)}: {e}.') from None

  @property
  def source(self) -> str | list[int]:
    """What an output shows of the input: its text, or its ids where it has none."""
    return list(self.tokens or ()) if self.text is None else self.text


def check_ids(examples: Iterable[Example]) -> None:
  """InputError where two have one id: predictions are told apart by it."""
  seen = set()
  for example in examples:
    if example.id in seen:
      raise InputError(f'Two examples have the id {example.id!r}; give each its own.')
    seen.add(example.id)


def texts_of(examples: Iterable, field: str, setting: str) -> list[str]:
  """The 'text' or 'reference' of each example; `setting`, a gin name, stands in messages.

  Raises:
    SettingError, InputError: another field, or an example without a reference.
  """
  checks.choice(f'{setting}.field', field, ('reference', 'text'))
  examples = list(examples)
  missing = [e.id for e in examples if getattr(e, field) is None]
  if missing and field == 'text':
    raise InputError(f'Example {missing[0]} is given by token ids, and {setting} needs texts.')
  if missing:
    raise InputError(f'Example {missing[0]} has no reference; set read_examples.reference_field, or '
                     f"{setting}.field = 'text' to take the texts themselves.")
  return [getattr(e, field) for e in examples]


def _field(name, value) -> Field:
  if isinstance(value, str):
    return checks.text(name, value, empty=False)
  return checks.whole(name, value, 0, hint=", or a field's name")


def _key(name, value) -> str:
  return checks.text(name, value, empty=False)


@arguments.checked(
    path=arguments.path, text_field=arguments.optional(_field), reference_field=arguments.optional(_field),
    id_field=arguments.optional(_field), tokens_field=arguments.optional(_key),
    target_prefix_field=arguments.optional(_field), targets_field=arguments.optional(_field),
    label_field=arguments.optional(_field), limit=arguments.optional(arguments.at_least(1)),
    words=arguments.optional(arguments.at_least(1)))
def read_examples(path: str | os.PathLike, text_field: Field | None = None,
                  reference_field: Field | None = None, id_field: Field | None = None,
                  tokens_field: str | None = None, target_prefix_field: Field | None = None,
                  targets_field: Field | None = None, label_field: Field | None = None,
                  limit: int | None = None, words: int | None = None) -> Sequence[Example]:
  """Reads .txt (a text a line), .tsv or .jsonl, each also with .gz; UTF-8, blank lines left out.

  In TSV a field is a column number from 0, or a name where the first line is a header
  (then all given fields are names); nothing is quoted. In JSON lines it is a key.

  Args:
    path: a local or gs:// file, or 'embedded:ende/test.tsv.gz' for a shipped one.
    text_field: field of the text; the first column, or 'text', by default.
    reference_field: field of the reference, if any.
    id_field: field of the id; by default 'id' in those JSON lines that have one, else line numbers.
    tokens_field: key of token ids that are read in place of a text, of JSON lines alone; by default 'tokens' in those
      that have no text. The ids of an encoder's input end in EOS.
    target_prefix_field: field of what an encoder-decoder's output begins with; by default 'target_prefix' in those
      JSON lines that have one. A text, or in JSON token ids.
    targets_field: field of outputs to score: a text, or in JSON a list of texts or of lists of token ids.
    label_field: field of the right target's place among them, from 0.
    limit: read no more than this many.
    words: keep the first so many words of each text: prompts for a decoder-only model.

  Returns:
    The examples, as `FileExamples`: all of them were read and found good, and none is in memory.

  Raises:
    MissingError: no such file.
    InputError: it cannot be read, or has bad lines: the first few are named with what is wrong, the others counted.
  """
  path = paths.resolve(path)
  kind = kind_of(path, tuple(_PARSERS))
  if tokens_field is not None and kind != '.jsonl':
    raise InputError(f"'{path}': token ids are read from JSON lines alone; leave read_examples.tokens_field out.")
  fields = {'text': text_field, 'reference': reference_field, 'id': id_field, 'tokens': tokens_field,
            'target_prefix': target_prefix_field, 'targets': targets_field, 'label': label_field}
  return FileExamples(path, lambda: _PARSERS[kind](path, fields), limit, words)


class FileExamples(Sequence):
  """A file's examples, read each time that they are gone through; equal to a list of them.

  None stays in memory, until one is asked for by place: then all do.
  """

  def __init__(self, path: str, parser: Callable[[], 'Parser'], limit: int | None, words: int | None):
    """Reads all of the file once; see `read_examples`."""
    self._path, self._parser, self._limit, self._words = path, parser, limit, words
    self._list: list[Example] | None = None
    numbers, faults = array.array('Q'), Faults(path)
    for line, found in self._read():
      if isinstance(found, BadLine):
        faults.add(line, found)
      else:
        numbers.append(ids.number(found.id))
    if len(np.unique(np.array(numbers, np.uint64))) < len(numbers):
      faults = self._faults_with_ids()
    faults.check()
    self._count = len(numbers)

  def __iter__(self) -> Iterator[Example]:
    """Raises InputError where the file has changed since."""
    if self._list is not None:
      yield from self._list
      return
    for line, found in self._read():
      if isinstance(found, BadLine):
        raise InputError(f"'{self._path}', line {line + 1}: {found}; it was changed while it was read.")
      yield found

  def __len__(self) -> int:
    return self._count

  def __getitem__(self, place):
    if self._list is None:
      self._list = list(self)
    return self._list[place]

  def __eq__(self, other) -> bool:
    return isinstance(other, Sequence) and len(self) == len(other) and all(a == b for a, b in zip(self, other))

  __hash__ = None  # type: ignore[assignment]

  def _faults_with_ids(self) -> Faults:
    """As where all ids are in memory."""
    seen, faults = {}, Faults(self._path)
    for line, found in self._read():
      if not isinstance(found, BadLine) and found.id in seen:
        found = BadLine(f'id {checks.shown(found.id)} is taken by line {seen[found.id] + 1}')
      if isinstance(found, BadLine):
        faults.add(line, found)
      else:
        seen[found.id] = line
    return faults

  def _read(self) -> Iterator[tuple[int, Example | BadLine]]:
    """Of each line its number and its example, or what is wrong with it."""
    parse, count = self._parser(), 0
    for line, text in raw_lines(self._path):
      try:
        example = parse(line, decoded(text))
        if example is None:  # a header
          continue
        if self._words is not None and example.tokens is not None:
          raise BadLine('token ids, of which read_examples.words takes no words')
      except BadLine as e:
        yield line, e
        continue
      if self._words is not None and example.text is not None:
        example = dataclasses.replace(example, text=' '.join(example.text.split()[:self._words]))
      yield line, example
      count += 1
      if count == self._limit:
        return


Parser = Callable[[int, str], Example | None]  # of a line's number and text; BadLine where it is bad


def _text_parser(path: str, fields: dict[str, Field | None]) -> Parser:
  if any(field is not None for field in fields.values()):
    raise InputError(f"'{path}' is plain text, a text a line, and has no fields to choose.")
  return lambda number, line: _example(number, {'text': line.strip()})


def _tsv_parser(path: str, fields: dict[str, Field | None]) -> Parser:
  columns: dict[str, Any] = {name: field for name, field in fields.items() if field is not None}
  columns.setdefault('text', 0)
  named = any(isinstance(field, str) for field in columns.values())

  def parse(number, line):
    nonlocal columns, named
    cells = line.split('\t')
    if named:
      columns, named = {name: _header_column(path, cells, field) for name, field in columns.items()}, False
      return None
    for name, column in columns.items():
      if column >= len(cells):
        raise BadLine(f'no column {column} for {name}; it has {len(cells)}, counted from 0')
    return _example(number, {name: cells[column].strip() for name, column in columns.items()})

  return parse


def _header_column(path, header, field) -> Any:
  if field not in header:
    raise InputError(f"'{path}': no column {field!r} in its header: {', '.join(header)}.")
  return header.index(field)


def _jsonl_parser(path: str, fields: dict[str, Field | None]) -> Parser:
  numbers = [field for field in fields.values() if isinstance(field, int)]
  if numbers:
    raise InputError(f"'{path}' has JSON lines, whose fields have names; {numbers[0]} is none.")
  chosen: dict[str, Any] = {name: field for name, field in fields.items() if field is not None}

  def parse(number, line):
    record = json_object(line)
    keys = dict(chosen)
    if not {'text', 'tokens'} & keys.keys():
      kind = 'tokens' if 'tokens' in record and 'text' not in record else 'text'
      keys[kind] = kind
    for key in keys.values():
      if key not in record:
        raise BadLine(f'no field {key!r}; it has {", ".join(record)}')
    values = {name: record[key] for name, key in keys.items()}
    values |= {name: record[name] for name in _IF_THERE if name not in chosen and name in record}
    return _example(number, values)

  return parse


def _example(number: int, values: dict) -> Example:
  """The example of one line's values."""
  example_id, text, reference = values.get('id', number), values.get('text'), values.get('reference')
  if 'tokens' in values:
    values['tokens'] = target_texts.ids(values['tokens'])
  prefix = values.get('target_prefix')
  if prefix is not None:
    prefix = target_texts.text_or_ids(prefix, 'target prefix')
  targets = target_texts.texts_or_ids(values['targets']) if 'targets' in values else ()
  label = target_texts.label(values['label'], targets) if 'label' in values else None
  _check(example_id, text, reference, values.get('tokens'), {'text', 'reference'} & values.keys())
  if not text and 'text' in values:
    raise BadLine('the text is empty')
  return Example(example_id, text, reference, values.get('tokens'), prefix or None, targets, label)


def _check(example_id, text, reference, tokens, read=frozenset()) -> None:
  """BadLine unless an example may have these; of text and reference those that were `read` may not be None."""
  if isinstance(example_id, bool) or not isinstance(example_id, int | str):
    raise BadLine(f'the id is {checks.shown(example_id)}; use a whole number or text')
  if isinstance(example_id, str):
    check_text('id', example_id)
  if tokens is not None:
    target_texts.ids(tokens)
  for name, value in (('text', text), ('reference', reference)):
    if isinstance(value, str):
      check_text(name, value)
    elif value is not None or name in read or (name == 'text' and tokens is None):
      raise BadLine(f'the {name} is {checks.shown(value)}, not text')


_PARSERS = {'.txt': _text_parser, '.tsv': _tsv_parser, '.jsonl': _jsonl_parser}
