"""Directories that appear under their name only when they are whole, and take the place of nothing but their own kind.

A local directory NAME is written in the hidden folder `.NAME.partial` beside it, which one process at a time holds:

    .lock    who writes; see `locks`
    new/     what is being written
    old/     what stood under NAME, from the moment that it makes room until `new` has its place

What a killed process left there is put right by the next one that writes NAME: `old` comes back where NAME is
missing, and the rest is removed.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator

from etils import epath

from specdec_jax.errors import OutputError
from specdec_jax.files import locks, writing
from specdec_jax.files.locations import absolute, is_remote
from specdec_jax.files.remote_directories import new_remote_directory
from specdec_jax.files.replacing import Foreign, check_replaceable
from specdec_jax.notes import note


@contextlib.contextmanager
def new_directory(path: str | os.PathLike, foreign: Foreign | None = None) -> Iterator[epath.Path]:
  """Yields a directory to fill, which takes the name `path` when all went well.

  Args:
    path: a local or gs:// directory that does not exist.
    foreign: allows a directory there to be replaced; see `replacing.check_replaceable`. It is asked again of
      what is really taken away.

  Raises:
    OutputError: something stands there that may not be replaced, or appeared meanwhile; another process
      writes there; or the disk refuses.
  """
  target = absolute(path)
  if is_remote(target):
    with new_remote_directory(target, foreign) as directory:
      yield directory
    return
  target = os.path.realpath(target)
  _check_free(target, foreign)
  with _workspace(target) as (new, old):
    _check_free(target, foreign)  # the workspace may have brought it back
    yield epath.Path(new)
    _publish(new, old, target, foreign)


def _check_free(target: str, foreign: Foreign | None) -> None:
  if os.path.lexists(target):
    check_replaceable(epath.Path(target), foreign)


@contextlib.contextmanager
def _workspace(target: str) -> Iterator[tuple[str, str]]:
  """Holds the folder in which a directory is made; yields the paths of `new`, which is empty, and of `old`."""
  parent, name = os.path.split(target)
  folder = os.path.join(parent, f'.{name}{writing.PARTIAL}')
  new, old = os.path.join(folder, 'new'), os.path.join(folder, 'old')
  lock = _hold(folder, target)
  try:
    _recover(new, old, target)
    with writing.named(target):
      os.mkdir(new)
    yield new, old
  finally:
    shutil.rmtree(new, ignore_errors=True)
    lock.release()
    with contextlib.suppress(OSError):  # another process may hold it by now
      os.rmdir(folder)


def _hold(folder: str, target: str) -> locks.Lock:
  for last in (False, False, True):
    with writing.named(target):
      os.makedirs(folder, exist_ok=True)
      names = set(os.listdir(folder))
    own = {n for n in names if n.startswith(locks.NAME)}
    if names - own - {'new', 'old'} or (names and not own):
      raise OutputError(f"'{folder}', where '{target}' is to be made, holds what this program did not leave there; "
                        'move it away.')
    try:
      return locks.take(folder, subject=f"'{target}'")
    except OutputError as e:
      if last or not isinstance(e.__cause__, FileNotFoundError):  # its last holder has just removed the folder
        raise
  raise AssertionError


def _recover(new: str, old: str, target: str) -> None:
  """Ends what a dead process began."""
  with writing.named(target):
    if os.path.lexists(old):
      if os.path.lexists(target):
        shutil.rmtree(old)
      else:
        os.rename(old, target)
    if os.path.lexists(new):
      shutil.rmtree(new)


def _publish(new: str, old: str, target: str, foreign: Foreign | None) -> None:
  """Gives `new` its name; what stands there is back in its place where that fails."""
  moved = claimed = False
  try:
    with writing.named(target):
      if foreign is not None and os.path.lexists(target):
        os.rename(target, old)
        moved = True
        check_replaceable(epath.Path(old), foreign, target)
      try:
        os.mkdir(target)  # fails where anything stands; renaming onto an empty directory would not
      except FileExistsError:
        raise OutputError(f"'{target}' has appeared while it was being written, and is kept; "
                          'name another directory.') from None
      claimed = True
      os.rename(new, target)  # onto the empty one that was made here: atomic, fails where it is no longer empty
  except BaseException:
    with contextlib.suppress(OSError):
      if claimed:
        os.rmdir(target)
    if moved:
      _put_back(old, target)
    raise
  writing.sync_directory(os.path.dirname(target))
  if moved:
    with writing.named(old):
      shutil.rmtree(old)


def _put_back(old: str, target: str) -> None:
  try:
    if not os.path.lexists(target):
      os.rename(old, target)
      return
    reason = 'something else has appeared there'
  except OSError as e:
    reason = e.strerror or str(e)
  note(f"what stood at '{target}' is now at '{old}': {reason}.")
