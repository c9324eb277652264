"""Files that the user named: what keeps them from being read is one line with the path.

Nothing but regular files is opened: a pipe would be waited for, and a device may have no end.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from typing import IO

from etils import epath

from specdec_jax.errors import CheckpointError, InputError, MissingError, UserError
from specdec_jax.files.locations import absolute, is_remote

_KINDS = ((stat.S_ISDIR, 'a directory'), (stat.S_ISFIFO, 'a pipe'), (stat.S_ISSOCK, 'a socket'),
          (stat.S_ISCHR, 'a device'), (stat.S_ISBLK, 'a device'))
Error = type[UserError] | None


def read_bytes(path: str | os.PathLike, what: str = 'file', most: int | None = None, error: Error = None) -> bytes:
  """The contents of a file, local ('~' expanded) or gs://.

  Args:
    path: where.
    what: what the messages call it, such as 'SentencePiece file'.
    most: the largest size allowed, in bytes.
    error: raised in place of both errors below.

  Raises:
    MissingError: nothing is there.
    InputError: it is no file, may not be read, is too large, or its file system needs a package.
  """
  if most is not None:
    size_of(path, what, most, error)
  with opened(path, what, error) as file:
    return file.read()


@contextlib.contextmanager
def opened(path: str | os.PathLike, what: str = 'file', error: Error = None) -> Iterator[IO[bytes]]:
  """A file to read from, for one that need not be in memory as a whole; raises as `read_bytes`."""
  with _named(path, what, error):
    if not is_remote(place := absolute(path)):
      _local_size(place, what, error)
    with place.open('rb') as file:
      yield file


def read_text(path: str | os.PathLike, what: str = 'file', most: int | None = None, error: Error = None) -> str:
  """As `read_bytes`, decoded; InputError where it is not UTF-8."""
  try:
    return read_bytes(path, what, most, error).decode('utf-8-sig')
  except UnicodeDecodeError as e:
    raise (error or InputError)(f"The {what} '{path}' is not UTF-8 (byte {e.start + 1}).") from None


def size_of(path: str | os.PathLike, what: str = 'file', most: int | None = None, error: Error = None) -> int:
  """Bytes of a regular file, which is not opened; raises as `read_bytes`."""
  file = absolute(path)
  with _named(path, what, error):
    size = file.stat().length if is_remote(file) else _local_size(file, what, error)
  if most is not None and size > most:
    raise (error or InputError)(f"The {what} '{path}' has {size:,} bytes; one that this program reads has at most "
                                f'{most:,}.')
  return size


def check_regular(directory: epath.Path, error: type[UserError] = CheckpointError) -> None:
  """Raises `error` for a pipe, device or dangling link below a local directory that a library is to read."""
  if is_remote(directory):
    return
  for folder, _, names in os.walk(directory):
    for path in (epath.Path(folder) / name for name in names):
      if not path.exists():
        raise error(f"'{path}' is a link that leads nowhere; remove it, or copy what it leads to.")
      size_of(path, error=error)


def _local_size(file: epath.Path, what: str, error: Error) -> int:
  found = os.stat(file)
  for is_kind, name in _KINDS:
    if is_kind(found.st_mode):
      raise (error or InputError)(f"The {what} '{file}' is {name}, not a file.")
  return found.st_size


@contextlib.contextmanager
def _named(path, what: str, error: Error) -> Iterator[None]:
  try:
    yield
  except UserError:  # of which some are OSErrors too
    raise
  except FileNotFoundError:
    raise (error or MissingError)(f"There is no {what} at '{path}'.") from None
  except ImportError as e:
    raise (error or InputError)(f"'{path}' needs a package for its file system: {e}") from None
  except OSError as e:
    raise (error or InputError)(f"The {what} '{path}' cannot be read: {e.strerror or e}.") from None
