"""Files that the user named: what keeps them from being read is one line with the path."""

import contextlib
import os
from collections.abc import Iterator
from typing import IO

from specdec_jax.errors import InputError, MissingError, UserError
from specdec_jax.files.locations import absolute


def read_bytes(path: str | os.PathLike, what: str = 'file') -> bytes:
  """The contents of a file, local ('~' expanded) or gs://.

  Args:
    path: where.
    what: what the messages call it, such as 'SentencePiece file'.

  Raises:
    MissingError: nothing is there.
    InputError: it is no file, may not be read, or its file system needs a package.
  """
  with _named(path, what):
    return absolute(path).read_bytes()


@contextlib.contextmanager
def opened(path: str | os.PathLike, what: str = 'file') -> Iterator[IO[bytes]]:
  """A file to read from, for one that need not be in memory as a whole; raises as `read_bytes`."""
  with _named(path, what), absolute(path).open('rb') as file:
    yield file


@contextlib.contextmanager
def _named(path, what: str) -> Iterator[None]:
  try:
    yield
  except UserError:  # of which some are OSErrors too
    raise
  except FileNotFoundError:
    raise MissingError(f"There is no {what} at '{path}'.") from None
  except ImportError as e:
    raise InputError(f"'{path}' needs a package for its file system: {e}") from None
  except OSError as e:
    raise InputError(f"The {what} '{path}' cannot be read: {e.strerror or e}.") from None


def read_text(path: str | os.PathLike, what: str = 'file') -> str:
  """As `read_bytes`, decoded; InputError where it is not UTF-8."""
  try:
    return read_bytes(path, what).decode('utf-8-sig')
  except UnicodeDecodeError as e:
    raise InputError(f"The {what} '{path}' is not UTF-8 (byte {e.start + 1}).") from None
