"""A directory on an object store, such as gs://: worked on in a local folder, and copied there as it grows.

Nothing is appended to or renamed there. A file that grows line by line is kept as shards, each written whole:
NAME.00000, NAME.00001 and so on. Other files are written anew when they change. The last is `MANIFEST`, with the size
and checksum of each file: where it is, the directory is whole. One process at a time has the directory: its mark
there, `MARK`, is written again every few seconds.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator

from etils import epath

from specdec_jax.errors import OutputError
from specdec_jax.files import locks, writing
from specdec_jax.files.owners import Owner, this_process
from specdec_jax.notes import note

MANIFEST, MARK = 'manifest.json', '.lock.json'
BEAT = 5.0  # seconds between two marks
PATIENCE = 30.0  # seconds without a new mark after which its owner is taken for dead
SETTLE = 1.0  # seconds after which one of two that start in the same instant sees the other's mark
INTERVAL = 20.0  # seconds between two copies
TROUBLE = 120.0  # seconds in which copies may fail before the command ends
_SHARD = re.compile(r'(.+)\.(\d{5,})')

_mirrored: dict[str, str] = {}  # local folders -> addresses


def shown(path: str) -> str:
  """A path as the user knows it: an address, where it lies in a mirrored folder."""
  for local, remote in _mirrored.items():
    if path == local or path.startswith(local + os.sep):
      return remote + path[len(local):]
  return path


class Mirror:
  """The copying; see `mirrored`."""

  def __init__(self, remote: epath.Path, local: str, growing: Collection[str], left_out: str):
    self._remote, self._local, self._growing, self._left_out = remote, local, growing, left_out
    self._copied: dict[str, tuple[int, int]] = {}  # of whole files: time and size
    self._shards: dict[str, tuple[int, int]] = {}  # of growing ones: number of shards, bytes in them
    self._lock, self._fetched = threading.Lock(), False

  def fetch(self) -> None:
    """Brings what is there into the local folder; of other processes' folders too."""
    self._fetch(self._remote, self._local)
    with _named(self._remote / MANIFEST):
      (self._remote / MANIFEST).unlink(missing_ok=True)  # until it is whole again
    self._fetched = True

  def _fetch(self, remote: epath.Path, local: str) -> None:
    with _named(remote):
      names = sorted(p.name for p in remote.iterdir()) if remote.is_dir() else []
    shards: dict[str, list[tuple[int, str]]] = {}
    for name in names:
      match = _SHARD.fullmatch(name)
      if match and match[1] in self._growing:
        shards.setdefault(match[1], []).append((int(match[2]), name))
      elif name not in (MARK, MANIFEST):
        with _named(remote / name):
          if (remote / name).is_dir():
            os.makedirs(os.path.join(local, name), exist_ok=True)
            self._fetch(remote / name, os.path.join(local, name))
            continue
          data = (remote / name).read_bytes()
        path = os.path.join(local, name)
        with open(path, 'wb') as f:
          f.write(data)
        if local == self._local:
          self._copied[name] = _version(path)
    for name, found in shards.items():
      path = os.path.join(local, name)
      with open(path, 'wb') as f:
        for _, shard in sorted(found):
          with _named(remote / shard):
            f.write((remote / shard).read_bytes())
      if local == self._local:
        self._shards[name] = max(number for number, _ in found) + 1, os.path.getsize(path)

  def push(self) -> None:
    """Writes what has changed since."""
    with self._lock:
      for name in self._files() if self._fetched else ():
        path = os.path.join(self._local, name)
        with contextlib.suppress(FileNotFoundError):  # it was finished in this moment
          if name in self._growing:
            self._push_lines(name, path)
          elif self._copied.get(name) != (version := _version(path)):
            with open(path, 'rb') as f:
              self._write(name, f.read())
            self._copied[name] = version

  def finish(self) -> None:
    """Brings all there, removes shards of what is finished, and writes the manifest."""
    self.push()
    with _named(self._remote):
      for path in list(self._remote.iterdir()):
        match = _SHARD.fullmatch(path.name)
        if match and match[1] in self._growing and not os.path.exists(os.path.join(self._local, match[1])):
          path.unlink()
    files = {}
    for name in self._files():
      with open(os.path.join(self._local, name), 'rb') as f:
        data = f.read()
      files[name] = {'bytes': len(data), 'sha256': hashlib.sha256(data).hexdigest()}
    self._write(MANIFEST, (json.dumps({'files': files}, indent=1) + '\n').encode())

  def _files(self) -> list[str]:
    """Names of the local files that belong there."""
    found = []
    for folder, folders, names in os.walk(self._local):
      inside = os.path.relpath(folder, self._local)
      folders[:] = [name for name in folders if not (inside == '.' and name.startswith(self._left_out))]
      found += [os.path.normpath(os.path.join(inside, name)) for name in names
                if not name.startswith(locks.NAME) and not name.endswith(writing.PARTIAL)]
    return sorted(found)

  def _push_lines(self, name: str, path: str) -> None:
    count, copied = self._shards.get(name, (0, 0))
    if os.path.getsize(path) < copied:  # it was mended: all of it again, after which the last of equal lines counts
      copied = 0
    with open(path, 'rb') as f:
      f.seek(copied)
      lines = f.read()
    lines = lines[:lines.rfind(b'\n') + 1]
    if lines:
      self._write(f'{name}.{count:05}', lines)
      self._shards[name] = count + 1, copied + len(lines)

  def _write(self, name: str, data: bytes) -> None:
    with _named(self._remote / name):
      (self._remote / name).write_bytes(data)


@contextlib.contextmanager
def mirrored(remote: epath.Path, growing: Collection[str], left_out: str, lost: Callable[[str], None]
             ) -> Iterator[tuple[str, Callable[[], None]]]:
  """Holds a directory of an object store, and copies a local folder to it until it is given up.

  Args:
    remote: the directory; it need not exist.
    growing: names of files to which whole lines are appended.
    left_out: what the names of folders begin with that are other processes' own.
    lost: called with the reason, in another thread, where another process takes the directory or copies fail.

  Yields:
    The local folder, and what gives the directory up at once, for an end that reaches no `finally`.

  Raises:
    OutputError: another process holds it (who, and since when), or it cannot be read or written. What could not be
      copied stays in the local folder, which is named.
  """
  owner = this_process(flock=False)
  _take(remote, owner)
  mark = Mark(remote, owner)
  local = tempfile.mkdtemp(prefix='specdec_jax-')
  mirror, ended = Mirror(remote, local, growing, left_out), threading.Event()
  kept = False
  _mirrored[local] = os.fspath(remote)

  def release():
    ended.set()
    mirror.push()
    mark.give_up()

  threading.Thread(target=_keep, args=(mirror, mark, ended, lost), name='mirror', daemon=True).start()
  not_copied = f"What was not copied is in '{local}'."
  try:
    mirror.fetch()
    try:
      yield local, release
    except BaseException:
      ended.set()
      try:
        mirror.push()
      except OutputError as e:  # what went wrong first is what counts
        kept = True
        note(f'{e} {not_copied}')
      raise
    ended.set()
    try:
      mirror.finish()
    except OutputError as e:
      kept = True
      raise OutputError(f'{e} {not_copied}') from e
  finally:
    ended.set()
    _mirrored.pop(local)
    with contextlib.suppress(Exception):
      mark.give_up()
    if not kept:
      shutil.rmtree(local, ignore_errors=True)


class Mark:
  """This process's mark on a directory that it has taken."""

  def __init__(self, remote: epath.Path, owner: Owner):
    self._remote, self._owner = remote, owner
    self._beat, self._given_up = 0, False
    self._lock = threading.RLock()  # none is written behind its removal

  def renew(self) -> str | None:
    """Writes it again; the reason where another process has the directory."""
    with self._lock:
      if self._given_up:
        return None
      theirs = _owner(self._remote)
      if theirs is not None and theirs.token != self._owner.token:
        return f"'{self._remote}' was taken over by {theirs} while this job ran"
      self._beat += 1
      _mark(self._remote, self._owner, self._beat)
      return None

  def give_up(self) -> None:
    """Removes it; once is enough, from any thread."""
    with self._lock:
      self._given_up = True
      found = _owner(self._remote)
      if found is not None and found.token == self._owner.token:
        (self._remote / MARK).unlink(missing_ok=True)


def _keep(mirror: Mirror, mark: Mark, ended: threading.Event, lost: Callable[[str], None]):
  """Marks and copies until the end."""
  copied, well = time.monotonic(), time.monotonic()
  while not ended.wait(BEAT):
    try:
      reason = mark.renew()
      if reason is not None:
        lost(reason)
        return
      if time.monotonic() - copied >= INTERVAL:
        mirror.push()
        copied = time.monotonic()
      well = time.monotonic()
    except Exception as e:  # whatever a client of a store raises
      if time.monotonic() - well > TROUBLE:
        lost(' '.join(str(e).split()))
        return


def _take(remote: epath.Path, owner: Owner) -> None:
  """Puts this process's mark there; OutputError where another one's is renewed."""
  with _named(remote):
    theirs, before = _owner(remote), _content(remote)
    refused = (f"output_dir '{remote}' is in use by {theirs}. Wait for its end, or name another one with "
               '--output_dir=DIR')
    if theirs is not None and theirs.visible():
      if theirs.alive():
        raise OutputError(refused + '.')
    elif before is not None:
      note(f"'{remote}' is marked by {theirs}; waiting {PATIENCE:.0f} s to see whether that lives.")
      end = time.monotonic() + PATIENCE
      while time.monotonic() < end:
        time.sleep(PATIENCE / 30)
        if _content(remote) not in (before, None):
          raise OutputError(f"{refused}; if that is no more, remove '{remote / MARK}'.")
    _mark(remote, owner, 0)
    time.sleep(SETTLE)
    found = _owner(remote)
    if found is None or found.token != owner.token:
      raise OutputError(f"output_dir '{remote}' is being taken by {found or 'another job'} at this moment; name "
                        'another one with --output_dir=DIR.')


def _mark(remote: epath.Path, owner: Owner, beat: int) -> None:
  (remote / MARK).write_bytes(json.dumps({'owner': dataclasses.asdict(owner), 'beat': beat}).encode())


def _content(remote: epath.Path) -> bytes | None:
  mark = remote / MARK
  return mark.read_bytes() if mark.exists() else None


def _owner(remote: epath.Path) -> Owner | None:
  """Whom the mark names; None where there is none, or it is damaged."""
  try:
    return Owner(**json.loads(_content(remote) or b'')['owner'])
  except (ValueError, TypeError, KeyError):
    return None


def _version(path: str) -> tuple[int, int]:
  found = os.stat(path)
  return found.st_mtime_ns, found.st_size


@contextlib.contextmanager
def _named(path) -> Iterator[None]:
  """OutputError that names an address, whatever the store's client raises."""
  try:
    yield
  except OutputError:
    raise
  except Exception as e:
    reason = ' '.join(str(e).split())[:300] or type(e).__name__
    raise OutputError(f"'{os.fspath(path)}' cannot be read or written ({reason}).") from e
