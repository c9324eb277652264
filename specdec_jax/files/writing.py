"""Local files that appear under their name only when they are whole and on the disk."""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import IO

from specdec_jax.errors import OutputError, UserError

PARTIAL = '.partial'  # what the name of a file ends in while it is written
_MENDS = {errno.ENOSPC: 'make room there', errno.EDQUOT: 'make room there',
          errno.ENOENT: 'its directory is gone: was it moved or deleted?',
          errno.EISDIR: 'a directory has this name: move it away',
          errno.EEXIST: 'a file has this name: name another place',
          errno.ENOTDIR: 'a file stands where a directory must',
          errno.EACCES: 'its owner must allow writing', errno.EROFS: 'its disk is mounted for reading only',
          errno.ENAMETOOLONG: 'choose a shorter name'}


@contextlib.contextmanager
def named(path: str | os.PathLike) -> Iterator[None]:
  """OutputError that names the path and the mend, where the operating system refuses to write there."""
  try:
    yield
  except UserError:  # of which some are OSErrors too
    raise
  except OSError as e:
    mend = _MENDS.get(e.errno or 0)
    reason = (e.strerror or str(e)) + (f'; {mend}' if mend else '')
    raise OutputError(f"'{os.fspath(path)}' cannot be written ({reason}).") from e


@contextlib.contextmanager
def whole_file(path: str | os.PathLike) -> Iterator[IO[bytes]]:
  """A file to write, which takes its name when all went well: another file of that name stands until then.

  Raises:
    OutputError: it cannot be written; what stood there is as it was.
  """
  path = os.fspath(path)
  partial = path + PARTIAL
  try:
    with named(path):
      with open(partial, 'wb') as f:
        yield f
        f.flush()
        os.fsync(f.fileno())
      os.replace(partial, path)
      sync_directory(os.path.dirname(path))
  except BaseException:
    with contextlib.suppress(OSError):
      os.remove(partial)
    raise


def write_text(path: str | os.PathLike, text: str) -> None:
  """Writes a whole file, in UTF-8; half a surrogate pair, which UTF-8 cannot hold, as JSON and Python escape it."""
  with whole_file(path) as f:
    f.write(text.encode('utf-8', 'backslashreplace'))


def sync_directory(path: str) -> None:
  """Brings the names in a directory to the disk, where its file system can."""
  with contextlib.suppress(OSError):
    directory = os.open(path or '.', os.O_RDONLY)
    try:
      os.fsync(directory)
    finally:
      os.close(directory)
