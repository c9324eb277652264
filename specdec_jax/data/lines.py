"""Lines of UTF-8 files, gzipped or not, local or gs://, and what is wrong with one, by its number."""

import gzip
import json
import os
import zlib
from collections.abc import Iterator
from typing import Any

from specdec_jax.errors import InputError
from specdec_jax.files.reading import opened

_WIDE = {b'\xff\xfe': 'UTF-16', b'\xfe\xff': 'UTF-16', b'\x00\x00\xfe\xff': 'UTF-32'}
_SHOWN = 3  # faults in one message


class BadLine(Exception):
  """What is wrong with one line; its number and the file are the reader's to add."""


class Faults:
  """The bad lines of a file, of which the first few are named in one message."""

  def __init__(self, path: str):
    self._path, self._first, self._count = path, [], 0

  def add(self, number: int, fault: BadLine | str) -> None:
    """`number` counts from 0."""
    self._count += 1
    if self._count <= _SHOWN:
      self._first.append(f'line {number + 1}: {fault}')

  def check(self) -> None:
    """InputError where there are any."""
    if self._count:
      more = self._count - len(self._first)
      raise InputError(f"'{self._path}', {'; '.join(self._first)}"
                       + (f"; and {more} more line{'s' if more > 1 else ''}." if more else '.'))


def raw_lines(path: str, what: str = 'input file') -> Iterator[tuple[int, bytes]]:
  """(number from 0, bytes) of the lines that are not blank; numbers count all.

  Args:
    path: resolved; unzipped where it ends in '.gz'.
    what: what messages call the file.

  Raises:
    MissingError, InputError: it cannot be read, is damaged, or is no UTF-8 text at all.
  """
  with opened(path, what) as file:
    zipped = path.endswith('.gz')
    number = -1
    try:
      for number, line in enumerate(gzip.GzipFile(fileobj=file) if zipped else file):
        if number == 0:
          line = _without_mark(path, line)
        if b'\0' in line:
          raise InputError(f"'{path}', line {number + 1}: a NUL byte; the file is UTF-16 without a mark, or no text: "
                           'save it as UTF-8.')
        if line.strip():
          yield number, line.removesuffix(b'\n').removesuffix(b'\r')
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
      raise InputError(f"'{path}' is truncated or not gzip (after line {number + 1}: {e}).") from e


def decoded(line: bytes) -> str:
  """The text of a line; BadLine where it is not UTF-8."""
  try:
    return line.decode('utf-8')
  except UnicodeDecodeError as e:
    raise BadLine(f'not UTF-8 (byte {e.start + 1})') from None


def json_object(line: str) -> dict[str, Any]:
  """The object that a line of JSON is; BadLine where it is none."""
  try:
    record = json.loads(line)
  except json.JSONDecodeError as e:
    raise BadLine(f'not JSON ({e})') from None
  except RecursionError:
    raise BadLine('JSON in too many brackets') from None
  except ValueError:  # Python's limit
    raise BadLine('a number of thousands of digits; write it as text') from None
  if not isinstance(record, dict):
    raise BadLine('not a JSON object')
  return record


def check_text(name: str, text: str) -> None:
  """BadLine where a text has characters that no UTF-8 text has; `name` is what it is."""
  if '\0' in text:
    raise BadLine(f'the {name} has a NUL character (at {text.index(chr(0)) + 1})')
  try:
    text.encode()
  except UnicodeEncodeError as e:
    half = f'\\u{ord(text[e.start]):04x}'
    raise BadLine(f'the {name} has half a surrogate pair ({half}, character {e.start + 1}), which is no text') from None


def kind_of(path: str | os.PathLike, kinds: tuple[str, ...]) -> str:
  """Which of these a file's name ends in, '.gz' aside; InputError where it is none."""
  kind = os.path.splitext(os.fspath(path).removesuffix('.gz'))[1]
  if kind not in kinds:
    names = ', '.join(kinds[:-1]) + f' or {kinds[-1]}'
    raise InputError(f"'{path}': the name must end in {names}, with .gz or without.")
  return kind


def _without_mark(path, line: bytes) -> bytes:
  """The first line without UTF-8's mark."""
  for mark, name in _WIDE.items():
    if line.startswith(mark):
      raise InputError(f"'{path}' is {name}; save it as UTF-8 (iconv -f {name} -t UTF-8).")
  return line.removeprefix(b'\xef\xbb\xbf')
