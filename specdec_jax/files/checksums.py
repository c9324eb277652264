"""files.json of a directory: the size and the SHA-256 checksum of every file in it, to tell what damage changed."""

import concurrent.futures
import hashlib
import json
import os
import re
from collections.abc import Callable

from etils import epath

from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.reading import size_of

NAME = 'files.json'
Progress = Callable[[int, int], None]  # called with the bytes done and in all
_CHUNK = 1 << 20
_MEND = 'copy or make it again, or, where it was changed on purpose, load it with verify=False'


def seal(directory: epath.Path, progress: Progress = lambda done, total: None) -> None:
  """Writes files.json over what a directory holds, its folders included."""
  files = sorted(_files(directory, directory))
  sizes = {name: size_of(directory / name, error=CheckpointError) for name in files}
  sums = _sums(directory, sizes, progress)
  lines = [f"{json.dumps(name)}: {json.dumps({'bytes': sizes[name], 'sha256': sums[name]})}" for name in files]
  (directory / NAME).write_text('{\n' + ',\n'.join(lines) + '\n}\n')


def is_sealed(directory: epath.Path) -> bool:
  """Whether a directory has files.json."""
  return (directory / NAME).exists()


def check(directory: epath.Path, contents: bool = True,
          progress: Progress = lambda done, total: None) -> dict[str, int]:
  """Compares a directory with its files.json; other files in it are not looked at.

  Args:
    directory: with files.json.
    contents: compare sizes and checksums; otherwise files.json is read alone.
    progress: called with the bytes read and in all.

  Returns:
    {relative path: bytes} of the files in files.json.

  Raises:
    CheckpointError: the first file that is missing, of another size or of another content.
  """
  noted = _noted(directory / NAME)
  sizes = {name: size for name, (size, _) in noted.items()}
  if contents:
    check_sizes(directory, sizes)
    sums = _sums(directory, sizes, progress)
    changed = [name for name, (_, checksum) in noted.items() if sums[name] != checksum]
    if changed:
      raise CheckpointError(
          f"'{directory / changed[0]}' is not as it was written: its checksum differs from that in {NAME}; {_MEND}.")
  return sizes


def check_sizes(directory: epath.Path, sizes: dict[str, int]) -> None:
  """CheckpointError for the first file that is missing, no regular file, or of another size."""
  for name, size in sizes.items():
    if not (directory / name).exists():
      raise CheckpointError(f"'{directory / name}' is missing; copy or make the directory again.")
    found = size_of(directory / name, error=CheckpointError)
    if found != size:
      raise CheckpointError(f"'{directory / name}' has {found} bytes of {size}; {_MEND}.")


def is_inside(name) -> bool:
  """Whether a value is a relative path that stays below the directory it is relative to."""
  return (isinstance(name, str) and bool(name) and '\\' not in name and '\0' not in name and '//' not in name
          and not name.startswith('/') and not {'..', '.', ''} & set(name.split('/')))


def _noted(path: epath.Path) -> dict[str, tuple[int, str]]:
  content = json_files.read_json(path, 'list of files')
  noted = {}
  for name, entry in content.items():
    size, checksum = (entry.get('bytes'), entry.get('sha256')) if isinstance(entry, dict) else (None, None)
    if not (is_inside(name) and type(size) is int and size >= 0 and isinstance(checksum, str)
            and re.fullmatch('[0-9a-f]{64}', checksum)):
      raise CheckpointError(f"'{path}' is damaged at {name[:80]!r}; copy or make the directory again.")
    noted[name] = size, checksum
  return noted


def _files(directory: epath.Path, root: epath.Path):
  """Relative paths of all files below a directory."""
  for path in directory.iterdir():
    if path.is_dir():
      yield from _files(path, root)
    elif (name := os.path.relpath(path, root)) != NAME:
      yield name


def _sums(directory: epath.Path, sizes: dict[str, int], progress: Progress) -> dict[str, str]:
  """SHA-256 of each file; several files at a time, since hashing leaves Python's lock."""
  done, total = 0, sum(sizes.values())
  progress(0, total)
  with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as threads:
    running = {threads.submit(_sum, directory / name): name
               for name in sorted(sizes, key=sizes.__getitem__, reverse=True)}
    sums = {}
    for future in concurrent.futures.as_completed(running):
      name = running[future]
      sums[name] = future.result()
      done += sizes[name]
      progress(done, total)
  return sums


def _sum(path: epath.Path) -> str:
  seen = hashlib.sha256()
  try:
    with path.open('rb') as f:
      while chunk := f.read(_CHUNK):
        seen.update(chunk)
  except OSError as e:
    raise CheckpointError(f"'{path}' cannot be read: {e.strerror or e}.") from e
  return seen.hexdigest()
