"""One process at a time in a directory: a lock that names its owner, and that a dead owner does not keep.

The lock is a file with the owner's description, which appears under its name whole or not at all. On one machine
the owner's hold on it (flock) ends with the owner, however it ends. Another machine's owner, on a common disk, shows
that it lives by touching the file every few seconds; a lock that nobody touches is taken over.
"""

import contextlib
import dataclasses
import errno
import fcntl
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator

from specdec_jax.errors import OutputError
from specdec_jax.files import writing
from specdec_jax.files.owners import Owner, this_process
from specdec_jax.notes import note

NAME = '.lock'
BEAT = 5.0  # seconds between two touches
PATIENCE = 20.0  # seconds without a touch after which another machine's owner is taken for dead


class Lock:
  """A lock that this process holds; see `held`."""

  def __init__(self, path: str, descriptor: int, owner: Owner, lost: Callable[[str], None]):
    self._path, self._descriptor, self._owner, self._lost = path, descriptor, owner, lost
    self._released = threading.Event()
    threading.Thread(target=self._beat, name='lock', daemon=True).start()

  def release(self) -> None:
    """Gives the lock up; once is enough, from any thread."""
    if self._released.is_set():
      return
    self._released.set()
    with contextlib.suppress(OSError):
      if _owner(self._path) == self._owner:
        os.remove(self._path)
    os.close(self._descriptor)

  def _beat(self):
    while not self._released.wait(BEAT):
      try:
        if _owner(self._path) == self._owner:
          os.utime(self._path)
          continue
        reason = f"'{os.path.dirname(self._path)}' was taken over by {_owner(self._path) or 'another process'}"
      except FileNotFoundError:
        reason = f"'{os.path.dirname(self._path)}' or the lock in it was deleted"
      except OSError:
        continue  # a disk that is away for a moment
      if not self._released.is_set():
        self._lost(f'{reason} while this job ran')
      return


@contextlib.contextmanager
def held(directory: str, lost: Callable[[str], None] = note, subject: str | None = None) -> Iterator[Lock]:
  """Holds the lock of a directory, which exists.

  Args:
    directory: a local one.
    lost: called with the reason, in another thread, where the lock is lost.
    subject: what messages call the directory; an output_dir by default.

  Raises:
    OutputError: another process holds it (who, and since when), or the directory cannot be written.
  """
  lock = take(directory, lost, subject)
  try:
    yield lock
  finally:
    lock.release()


def take(directory: str, lost: Callable[[str], None] = note, subject: str | None = None) -> Lock:
  """As `held`, for as long as the process lives, or until `release`."""
  another = 'name another one' + ('' if subject else ' with --output_dir=DIR')
  subject = subject or f"output_dir '{directory}'"
  path = os.path.join(directory, NAME)
  mine = f'{path}.{os.getpid()}-{secrets.token_hex(4)}'
  with writing.named(path):
    descriptor = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
      owner = this_process(_flock(descriptor) is True)
      os.write(descriptor, json.dumps(dataclasses.asdict(owner)).encode())
      os.fsync(descriptor)
      for _ in range(5):
        if _appear(mine, path):
          return Lock(path, descriptor, owner, lost)
        _remove_if_dead(path, subject, another)
    except BaseException:
      os.close(descriptor)
      raise
    finally:
      with contextlib.suppress(OSError):
        os.remove(mine)
  os.close(descriptor)
  raise OutputError(f'{subject} is being taken by other jobs at this moment; try again, or {another}.')


def _appear(mine: str, path: str) -> bool:
  """Gives a whole file its name; False where that is taken."""
  try:
    os.link(mine, path)
  except FileExistsError:
    return os.stat(mine).st_nlink > 1  # NFS may have done it and asked again
  except OSError as e:
    if e.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
      raise
    if os.path.exists(path):  # a file system without hard links; two that start in the same instant may both pass
      return False
    os.rename(mine, path)
  return True


def _remove_if_dead(path: str, subject: str, another: str) -> None:
  """Removes the lock of an owner that is no more; OutputError where the owner lives."""
  try:
    found, owner = _open(path), _owner(path)
  except FileNotFoundError:  # given up in the meantime
    return
  try:
    free = _flock(found)
    if owner and owner.visible():
      alive = owner.alive()
      if free is False and not alive:  # another process is about to remove it
        time.sleep(0.2)
        return
    elif owner and owner.flock and owner.on_this_machine():
      alive = free is False
    else:
      alive = free is False or _is_touched(path, owner)
    if alive:
      who = owner or 'a process that has not written its name into it'
      mend = '.' if owner and owner.visible() else f"; if that is no more, remove '{path}'."
      raise OutputError(f'{subject} is in use by {who}. Wait for its end, or {another}{mend}')
    aside = f'{path}.{secrets.token_hex(4)}'
    os.rename(path, aside)
    if _owner(aside) != owner:  # another process was faster, and this is its new lock
      with contextlib.suppress(FileExistsError):
        os.link(aside, path)
    else:
      note(f"{subject} was in use by {owner or 'a process'}, which is no more; this job takes its place.")
    os.remove(aside)
  except FileNotFoundError:
    pass
  finally:
    os.close(found)


def _is_touched(path: str, owner: Owner | None) -> bool:
  """Whether the owner, whom only the file can show to live, touches it within PATIENCE."""
  note(f"'{path}' is the lock of {owner or 'a process'}; waiting {PATIENCE:.0f} s to see whether that lives.")
  try:
    touched, end = os.stat(path).st_mtime_ns, time.monotonic() + PATIENCE
    while time.monotonic() < end:
      if os.stat(path).st_mtime_ns != touched:
        return True
      time.sleep(PATIENCE / 40)
  except FileNotFoundError:  # given up in the meantime
    pass
  return False


def _open(path: str) -> int:
  if not stat.S_ISREG(os.stat(path).st_mode):
    raise OutputError(f"'{path}' is the name of a lock, and no file; move it away.")
  try:
    return os.open(path, os.O_RDWR)  # which flock on NFS wants
  except PermissionError:
    return os.open(path, os.O_RDONLY)


def _flock(descriptor: int) -> bool | None:
  """True where this process holds the file now, False where another does, None on a disk without flock."""
  try:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError:
    return None
  return True


def _owner(path: str) -> Owner | None:
  """Who a lock names; None where that is damaged."""
  with open(path, encoding='utf-8') as f:
    try:
      return Owner(**json.load(f))
    except (ValueError, TypeError):
      return None
