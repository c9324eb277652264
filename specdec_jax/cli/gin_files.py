"""Gin files as one text: found on the search paths, includes put in, each line with its place.

gin reads files by itself, too, but its own reader takes every folder for a Python package (and fails
on those that are none), knows no encoding, and reports an error in an included file without its line.
"""

import dataclasses
import io
import os
import re
import tokenize
from collections.abc import Iterator, Sequence

from etils import epath

from specdec_jax.errors import ConfigError
from specdec_jax.files.reading import size_of
from specdec_jax.paths import gin_search_paths

_INCLUDE = re.compile(r"""include\s+(['"])(?P<name>.+)\1\s*(#.*)?""")


@dataclasses.dataclass(frozen=True)
class Line:
  """One line of a configuration, and where it stands: `number` from 1."""

  text: str
  file: str
  number: int

  @property
  def place(self) -> str:
    return f'{self.file}, line {self.number}'


class Source:
  """What `gin.parse_config` reads line by line."""

  def __init__(self, lines: Sequence[Line]):
    self.lines = list(lines)
    self._next = 0

  def readline(self) -> str:
    if self._next == len(self.lines):
      return ''
    self._next += 1
    return self.lines[self._next - 1].text

  def at(self, number: int) -> Line | None:
    """The line that gin counts as `number`, from 1; at the end of the text its last one."""
    return self.lines[min(number, len(self.lines)) - 1] if self.lines else None


def read(name: str, search_paths: Sequence[str] = ()) -> Source:
  """A gin file with all that it includes, as one text.

  Args:
    name: of the file: local, gs://, or as a search path has it, such as 'gin/runs/decode.gin'.
    search_paths: directories that are looked in after the current one and before the project's own.

  Raises:
    ConfigError: a file is missing or cannot be read, is not UTF-8, is torn, or includes itself.
  """
  return Source(list(_lines(name, [*search_paths, *map(str, gin_search_paths())], ())))


def _lines(name, search_paths, including: tuple[Line, ...]) -> Iterator[Line]:
  by = f' (included by {including[-1].place})' if including else ''
  file = _find(name, search_paths, by)
  if _identity(file) in [_identity(line.file) for line in including]:
    raise ConfigError(f'{file} includes itself{by}; remove that include.')
  text = _text(file, by)
  _check_whole(file, text)
  for number, line in enumerate(io.StringIO(text), 1):
    place = Line(line if line.endswith('\n') else line + '\n', file, number)
    included = _INCLUDE.fullmatch(line.rstrip())
    if included:
      yield from _lines(included['name'], search_paths, (*including, place))
    else:
      yield place


def _find(name, search_paths, by) -> str:
  name = os.path.expanduser(name)
  if '://' in name or os.path.isabs(name):
    candidates = [name]
  else:
    candidates = [name, *(os.path.join(os.path.expanduser(path), name) for path in search_paths)]
  for candidate in candidates:
    try:
      if epath.Path(candidate).is_file():
        return candidate
    except (ImportError, OSError, ValueError, KeyError) as e:  # KeyError: of an address, such as https://
      raise ConfigError(f"gin file '{candidate}'{by} cannot be looked for: {_one_line(e)}.") from None
  others = '' if candidates == [name] else f'; looked in the current directory, {", ".join(search_paths)}'
  hint = ("; T5X's own gin files are not read: ours are gin/runs/decode.gin, configs/demo/decode.gin and others"
          if 't5x' in name.split('/') else '')
  raise ConfigError(f"There is no gin file '{name}'{by}{others}{hint}.")


def _identity(file: str) -> str:
  return file if '://' in file else os.path.realpath(file)


def _text(file, by) -> str:
  size_of(file, 'gin file', error=ConfigError)
  try:
    return epath.Path(file).read_bytes().decode('utf-8-sig')
  except UnicodeDecodeError as e:
    raise ConfigError(f"gin file '{file}'{by} is not UTF-8 (byte {e.start + 1}); save it as UTF-8.") from None
  except OSError as e:
    raise ConfigError(f"gin file '{file}'{by} cannot be read: {_one_line(e)}.") from None


def _check_whole(file: str, text: str) -> None:
  """ConfigError for a bracket or text that the file opens and does not close: no other file may close it."""
  try:
    for _ in tokenize.generate_tokens(io.StringIO(text).readline):
      pass
  except (tokenize.TokenError, SyntaxError) as e:
    line = e.lineno if isinstance(e, SyntaxError) else e.args[1][0]
    raise ConfigError(f'{file}, line {line}: not gin ({str(e.args[0]).rstrip(".")}).') from None


def _one_line(error: Exception) -> str:
  return ' '.join(str(error).split()).rstrip('.') or type(error).__name__
