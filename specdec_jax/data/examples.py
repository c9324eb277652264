"""Inputs from text, TSV and JSON-lines files, gzipped or not, local or gs://."""

import dataclasses
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator

from specdec_jax import paths
from specdec_jax.errors import InputError
from specdec_jax.files.reading import read_bytes

Field = int | str


@dataclasses.dataclass(frozen=True)
class Example:
  """One input.

  Attributes:
    id: the file's own, else the line's number, from 0.
    text: what the model reads.
    reference: what a person would have written, where it is known.
  """

  id: int | str
  text: str
  reference: str | None = None


def texts_of(examples: Iterable, field: str, setting: str) -> list[str]:
  """The 'text' or 'reference' of each example; `setting`, a gin name, stands in messages.

  Raises:
    ValueError: another field, or an example without a reference.
  """
  if field not in ('reference', 'text'):
    raise InputError(f"{setting}.field is {field!r}; use 'reference' or 'text'.")
  examples = list(examples)
  missing = [e.id for e in examples if getattr(e, field) is None]
  if missing:
    raise InputError(f'Example {missing[0]} has no reference; set read_examples.reference_field, or '
                     f"{setting}.field = 'text' to take the texts themselves.")
  return [getattr(e, field) for e in examples]


def read_examples(path: str | os.PathLike, text_field: Field | None = None,
                  reference_field: Field | None = None, id_field: Field | None = None,
                  limit: int | None = None, words: int | None = None) -> list[Example]:
  """Reads .txt (a text a line), .tsv or .jsonl, each also with .gz; UTF-8, blank lines left out.

  In TSV a field is a column number from 0, or a name where the first line is a header
  (then all given fields are names); nothing is quoted. In JSON lines it is a key.

  Args:
    path: a local or gs:// file, or 'embedded:ende/test.tsv.gz' for a shipped one.
    text_field: field of the text; the first column, or 'text', by default.
    reference_field: field of the reference, if any.
    id_field: field of the id; by default 'id' in those JSON lines that have one, else line numbers.
    limit: read no more than this many.
    words: keep the first so many words of each text: prompts for a decoder-only model.

  Raises:
    FileNotFoundError: no such file.
    ValueError: one line that names file and line.
  """
  path = paths.resolve(path)
  kind = os.path.splitext(path.removesuffix('.gz'))[1]
  if kind not in _READERS:
    raise InputError(f"'{path}': the name must end in .txt, .tsv or .jsonl, with .gz or without.")
  if limit is not None and limit < 1:
    raise InputError(f'limit is {limit}; it must be at least 1, or None for all.')
  if words is not None and words < 1:
    raise InputError(f'words is {words}; it must be at least 1, or None for all.')
  examples, lines = [], {}
  for number, example in _READERS[kind](path, text_field, reference_field, id_field):
    if example.id in lines:
      raise InputError(f'{_at(path, number)}: id {example.id!r} is taken by line '
                       f'{lines[example.id] + 1}.')
    lines[example.id] = number
    if words is not None:
      example = dataclasses.replace(example, text=' '.join(example.text.split()[:words]))
    examples.append(example)
    if len(examples) == limit:
      break
  return examples


def read_records(path: str | os.PathLike) -> Iterator[dict[str, str]]:
  """The lines of a .jsonl file, or of a .tsv file with a header, as field -> text.

  Every record has the fields of the first; ValueError names the line that lacks one.
  """
  path, fields = paths.resolve(path), None
  kind = os.path.splitext(path.removesuffix('.gz'))[1]
  if kind not in ('.tsv', '.jsonl'):
    raise InputError(f"'{path}': the name must end in .tsv or .jsonl, with .gz or without.")
  for number, line in _lines(path):
    if kind == '.tsv' and fields is None:
      fields = line.split('\t')
      continue
    record = (_json_object(path, number, line) if kind == '.jsonl'
              else dict(zip(fields, line.split('\t'))))
    fields = fields or list(record)
    missing = [field for field in fields if not isinstance(record.get(field), str)]
    if missing:
      raise InputError(f'{_at(path, number)}: no text in field {missing[0]!r}.')
    yield {field: record[field] for field in fields}


def _at(path, number):
  return f"'{path}', line {number + 1}"


def _lines(path: str) -> Iterator[tuple[int, str]]:
  """(number from 0, line) of those that are not blank; numbers count all."""
  data = read_bytes(path, 'input file')
  if path.endswith('.gz'):
    try:
      data = gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as e:
      raise InputError(f"'{path}' is truncated or not gzip ({e}).") from e
  for number, line in enumerate(data.removeprefix(b'\xef\xbb\xbf').split(b'\n')):
    if line.strip():
      try:
        yield number, line.rstrip(b'\r').decode('utf-8')
      except UnicodeDecodeError as e:
        raise InputError(f'{_at(path, number)}: not UTF-8 (byte {e.start + 1}).') from e


def _read_text(path, text, reference, id_field):
  if any(field is not None for field in (text, reference, id_field)):
    raise InputError(f"'{path}' is plain text, a text a line, and has no fields to choose.")
  for number, line in _lines(path):
    yield number, Example(number, line.strip())


def _read_tsv(path, text, reference, id_field):
  fields = {'text': 0 if text is None else text, 'reference': reference, 'id': id_field}
  fields = {name: field for name, field in fields.items() if field is not None}
  named = any(isinstance(field, str) for field in fields.values())
  for number, line in _lines(path):
    cells = line.split('\t')
    if named:
      fields, named = {n: _header_column(path, cells, f) for n, f in fields.items()}, False
      continue
    for name, column in fields.items():
      if not 0 <= column < len(cells):
        raise InputError(f'{_at(path, number)}: no column {column} for {name}; '
                         f'it has {len(cells)}, counted from 0.')
    values = {name: cells[column].strip() for name, column in fields.items()}
    yield number, _example(path, number, values)


def _header_column(path, header, field):
  if field not in header:
    raise InputError(f"'{path}': no column {field!r} in its header: {', '.join(header)}.")
  return header.index(field)


def _read_jsonl(path, text, reference, id_field):
  fields = {'text': 'text' if text is None else text, 'reference': reference, 'id': id_field}
  for number, line in _lines(path):
    record = _json_object(path, number, line)
    for field in fields.values():
      if field is not None and field not in record:
        raise InputError(f'{_at(path, number)}: no field {field!r}; it has {", ".join(record)}.')
    values = {name: record[field] for name, field in fields.items() if field is not None}
    if id_field is None and 'id' in record:
      values['id'] = record['id']
    yield number, _example(path, number, values)


def _json_object(path, number, line) -> dict:
  try:
    record = json.loads(line)
  except json.JSONDecodeError as e:
    raise InputError(f'{_at(path, number)}: not JSON ({e}).') from e
  if not isinstance(record, dict):
    raise InputError(f'{_at(path, number)}: not a JSON object.')
  return record


def _example(path, number, values):
  """Example of one line's values, checked."""
  for name in ('text', 'reference'):
    if not isinstance(values.get(name, ''), str):
      raise InputError(f'{_at(path, number)}: the {name} is {values[name]!r}, not text.')
  if not values['text']:
    raise InputError(f'{_at(path, number)}: the text is empty.')
  example_id = values.get('id', number)
  if isinstance(example_id, bool) or not isinstance(example_id, int | str):
    raise InputError(f'{_at(path, number)}: the id is {example_id!r}; use a number or text.')
  return Example(example_id, values['text'], values.get('reference'))


_READERS = {'.txt': _read_text, '.tsv': _read_tsv, '.jsonl': _read_jsonl}
