"""How weights lie on disk: several Orbax checkpoints ("parts") of a bounded size each.

A part holds a few leaves as a flat dictionary {path: leaf}. Writing and reading
one part at a time bounds the memory, whatever the size of the model. A leaf is
a float array or, in int8 storage, {'values': int8, 'scale': float32}. files.json
beside the parts has the size of every file, so that a truncated copy is named.
"""

import contextlib
import json
import logging
import math
import re
from collections.abc import Iterator

import numpy as np
from etils import epath

from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.replacing import only
from specdec_jax.models.parameters import is_matrix

STORAGES = ('float32', 'bfloat16', 'int8')
PART_BYTES = 256 << 20
_FILES = 'files.json'


def compress(path: str, value: np.ndarray, storage: str):
  """A float leaf as it is stored; only matrices are stored in less than float32.

  int8 is symmetric with one scale per output channel: per column of a kernel
  [in, out], per row of the embedding [vocab, emb].
  """
  if storage == 'bfloat16' and is_matrix(path, value.shape):
    return value.astype(dtype_of('bfloat16'))
  value = np.asarray(value, np.float32)
  if storage == 'float32' or not is_matrix(path, value.shape):
    return value
  axis = 1 if path.endswith('embedding') else 0
  scale = np.abs(value).max(axis=axis, keepdims=True) / np.float32(127)
  scale = np.where(scale > 0, scale, np.float32(1))
  return {'values': np.rint(value / scale).astype(np.int8), 'scale': scale}


def expand(path: str, leaf, dtype: str) -> np.ndarray:
  """The inverse of `compress`, up to rounding; matrices in `dtype`, the rest float32."""
  if isinstance(leaf, dict):
    leaf = leaf['values'].astype(np.float32) * leaf['scale']
  return leaf.astype(dtype_of(dtype if is_matrix(path, leaf.shape) else 'float32'), copy=False)


def dtype_of(name: str) -> np.dtype:
  """The NumPy dtype of 'float32', 'bfloat16', ..."""
  import ml_dtypes
  return np.dtype(ml_dtypes.bfloat16 if name == 'bfloat16' else name)


def num_bytes(shape: tuple[int, ...], dtype: str) -> int:
  """Bytes of an array."""
  return math.prod(shape) * dtype_of(dtype).itemsize


class Writer:
  """Collects leaves and writes a part whenever they come to `part_bytes`.

  Used as a context manager: leaving it writes the last part and files.json.
  """

  def __init__(self, directory, storage: str, part_bytes: int = PART_BYTES):
    if storage not in STORAGES:
      raise SettingError(f"storage is '{storage}'; use one of {', '.join(STORAGES)}.")
    self._directory = epath.Path(directory)
    self._directory.mkdir(parents=True)
    self._storage, self._part_bytes = storage, part_bytes
    self._leaves, self._bytes, self._parts = {}, 0, 0

  def add(self, path: str, value: np.ndarray) -> None:
    """Stores one float leaf under its '/'-joined path."""
    leaf = compress(path, np.asarray(value), self._storage)
    size = sum(x.nbytes for x in (leaf.values() if isinstance(leaf, dict) else [leaf]))
    if self._leaves and self._bytes + size > self._part_bytes:
      self._flush()
    self._leaves[path] = leaf
    self._bytes += size

  def _flush(self):
    import orbax.checkpoint as ocp
    part = self._directory / f'part_{self._parts:04d}'
    with quiet_orbax(), ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
      checkpointer.save(part, args=ocp.args.PyTreeSave(self._leaves))
    marker = part / 'commit_success.txt'
    if marker.exists():  # Orbax names the folder in it, and a model directory may move
      marker.write_text('Checkpoint commit was successful.\n')
    self._leaves, self._bytes, self._parts = {}, 0, self._parts + 1

  def __enter__(self):
    return self

  def __exit__(self, kind, *unused):
    if kind is not None:
      return
    if self._leaves:
      self._flush()
    (self._directory / _FILES).write_text(json.dumps(_file_sizes(self._directory), indent=0))


def _file_sizes(directory) -> dict[str, int]:
  """Bytes of every file below a directory's parts, by relative path."""
  sizes, waiting = {}, list(directory.glob('part_*'))
  while waiting:
    path = waiting.pop()
    if path.is_dir():
      waiting += path.iterdir()
    else:
      sizes[str(path.relative_to(directory))] = path.stat().length
  return dict(sorted(sizes.items()))


def foreign(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`, of a directory of weights."""
  if not directory.is_dir():
    return f"has no folder '{directory.name}'"
  return only({_FILES, *(p.name for p in directory.iterdir() if re.fullmatch(r'part_\d{4,}', p.name))})(directory)


def _check_files(directory) -> None:
  """Raises CheckpointError for the first file that is missing or of another size."""
  if not (directory / _FILES).exists():
    raise CheckpointError(f'No weights in {directory}; import or train the model again.')
  try:
    expected = json.loads((directory / _FILES).read_text())
  except ValueError as e:
    raise CheckpointError(f'{directory / _FILES} is truncated; copy the model again.') from e
  found = _file_sizes(directory)
  for name, size in expected.items():
    if found.get(name) != size:
      state = f'has {found[name]} bytes of {size}' if name in found else 'is missing'
      raise CheckpointError(f'{directory / name} {state}; copy or import the model again.')


def read(directory, dtype: str) -> Iterator[tuple[str, np.ndarray]]:
  """Yields (path, array) of all leaves, a part at a time; see `expand` for `dtype`."""
  directory = epath.Path(directory)
  _check_files(directory)
  import orbax.checkpoint as ocp
  for part in sorted(directory.glob('part_*')):
    try:
      with quiet_orbax(), ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        leaves = checkpointer.restore(part)
    except Exception as e:  # Orbax and TensorStore raise many kinds for a damaged directory
      raise CheckpointError(
          f'The weights in {part} are damaged; copy or import the model again. '
          f'({first_line(e)})') from e
    for path in list(leaves):
      yield path, expand(path, leaves.pop(path), dtype)


@contextlib.contextmanager
def quiet_orbax():
  """Keeps Orbax's notices about optional metadata files off the screen."""
  logger = logging.getLogger('absl')
  level = logger.level
  logger.setLevel(logging.ERROR)
  try:
    yield
  finally:
    logger.setLevel(level)


def first_line(error: BaseException, length: int = 200) -> str:
  """The beginning of an error's text, for use inside a one-line message."""
  return (str(error) or type(error).__name__).strip().splitlines()[0][:length]
