"""How weights lie on disk: several Orbax checkpoints ("parts") of a bounded size each.

A part holds a few leaves as a flat dictionary {path: leaf}. Writing and reading
one part at a time bounds the memory, whatever the size of the model. A leaf is
a float array or, in int8 storage, {'values': int8, 'scale': float32}.
"""

import contextlib
import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from etils import epath

from specdec_jax.checkpoints import orbax
from specdec_jax.checkpoints.numbers import count_nonfinite
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError, OutputError, SettingError
from specdec_jax.files import checksums, json_files
from specdec_jax.files.reading import check_regular
from specdec_jax.files.replacing import only
from specdec_jax.models.parameters import is_matrix

STORAGES = ('float32', 'bfloat16', 'int8')
PART_BYTES = 256 << 20
_OLD_FILES = 'files.json'  # sizes alone, in directories from before there were checksums
_PART = re.compile(r'part_\d{4,}')


def compress(path: str, value: np.ndarray, storage: str):
  """A float leaf as it is stored; only matrices are stored in less than float32.

  int8 is symmetric with one scale per output channel: per column of a kernel
  [in, out], per row of the embedding [vocab, emb].

  Raises:
    CheckpointError: finite numbers that the storage has no room for, or, in int8, that are not finite.
  """
  storage = storage if is_matrix(path, value.shape) else 'float32'
  kept = dtype_of('bfloat16' if storage == 'bfloat16' else 'float32')
  with np.errstate(over='ignore'):
    stored = value.astype(kept, copy=False)
  if stored.dtype != value.dtype and count_nonfinite(stored) > count_nonfinite(value):
    raise CheckpointError(f"'{path}' has numbers too large for {kept.name}"
                          + ('; store it as float32.' if kept.name == 'bfloat16' else '.'))
  if storage != 'int8':
    return stored
  axis = 1 if path.endswith('embedding') else 0
  scale = np.abs(stored).max(axis=axis, keepdims=True) / np.float32(127)
  if not np.isfinite(scale).all():
    raise CheckpointError(f"'{path}' has numbers that are not finite, which int8 cannot hold; store it as float32.")
  scale = np.where(scale > 0, scale, np.float32(1))
  return {'values': np.rint(stored / scale).astype(np.int8), 'scale': scale}


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

  Used as a context manager: leaving it writes the last part.
  """

  def __init__(self, directory, storage: str, part_bytes: int = PART_BYTES):
    if storage not in STORAGES:
      raise SettingError(f"storage is '{storage}'; use one of {', '.join(STORAGES)}.")
    self._directory = epath.Path(directory)
    self._directory.mkdir(parents=True)
    self._storage, self._part_bytes = storage, part_bytes
    self._leaves, self._bytes, self._parts = {}, 0, 0

  def add(self, path: str, value: Any) -> None:
    """Stores one leaf under its '/'-joined path: floats, or what `compress` made of them."""
    leaf = value if isinstance(value, dict) else compress(path, np.asarray(value), self._storage)
    size = sum(x.nbytes for x in (leaf.values() if isinstance(leaf, dict) else [leaf]))
    if self._leaves and self._bytes + size > self._part_bytes:
      self._flush()
    self._leaves[path] = leaf
    self._bytes += size

  def _flush(self):
    import orbax.checkpoint as ocp
    part = self._directory / f'part_{self._parts:04d}'
    try:
      with (orbax.plain(self._directory) as directory, orbax.quiet(),
            ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer):
        checkpointer.save(directory / part.name, args=ocp.args.PyTreeSave(self._leaves))
    except Exception as e:  # Orbax and TensorStore raise many kinds where a disk is full or read-only
      raise OutputError(f"The weights cannot be written to '{part}' ({first_line(e)}).") from e
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


def foreign(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`, of a directory of weights."""
  if not directory.is_dir():
    return f"has no folder '{directory.name}'"
  return only({_OLD_FILES, *(p.name for p in directory.iterdir() if _PART.fullmatch(p.name))})(directory)


def check_old(directory: epath.Path) -> list[str]:
  """Compares weights from before there were checksums with the sizes in their own files.json.

  Returns:
    The names of the parts.

  Raises:
    CheckpointError: the first file that is missing or of another size.
  """
  if not (directory / _OLD_FILES).exists():
    raise CheckpointError(f"No weights in '{directory}'; import or train the model again.")
  sizes = json_files.read_json(directory / _OLD_FILES, 'list of files')
  for name, size in sizes.items():
    if not checksums.is_inside(name) or type(size) is not int:
      raise CheckpointError(f"'{directory / _OLD_FILES}' is damaged at {name[:80]!r}; copy the model again.")
  checksums.check_sizes(directory, sizes)
  return parts_of(sizes)


def parts_of(names: Iterable[str]) -> list[str]:
  """The parts that files with these paths, relative to the weights, belong to."""
  return sorted({name.partition('/')[0] for name in names if _PART.fullmatch(name.partition('/')[0])})


def read(directory: epath.Path, dtype: str,
         parts: Iterable[str] | None = None) -> Iterator[tuple[str, np.ndarray]]:
  """Yields (path, array) of all leaves, a part at a time (by default all that are there); see `expand` for `dtype`."""
  for part, path, leaf in stored(directory, parts):
    with _damage(part):
      value = expand(path, leaf, dtype)
    yield path, value


def read_as(directory: epath.Path, dtypes: dict[str, str],
            parts: Iterable[str] | None = None) -> Iterator[tuple[str, np.ndarray]]:
  """As `read`, for a model that keeps some of its leaves as int8; see `kept`.

  Args:
    dtypes: of `parameters.parameter_dtypes`.
  """
  for part, path, leaf in stored(directory, parts):
    with _damage(part):
      values = list(kept(path, leaf, dtypes))
    yield from values


def kept(path: str, leaf: Any, dtypes: dict[str, str]) -> Iterator[tuple[str, np.ndarray]]:
  """A stored leaf as a model keeps it: by its dtype, int8 as the values and, beside them, their scales."""
  dtype = dtypes.get(path, 'float32')
  if dtype != 'int8':
    yield path, expand(path, leaf, dtype)
    return
  leaf = leaf if isinstance(leaf, dict) else compress(path, leaf, 'int8')
  yield path, leaf['values']
  yield f"{path.rpartition('/')[0]}/scale", leaf['scale'].reshape(-1)


def stored(directory: epath.Path, parts: Iterable[str] | None = None) -> Iterator[tuple[epath.Path, str, Any]]:
  """(its part, its path, a leaf as it is stored), a part at a time."""
  directory = epath.Path(directory)
  for name in parts_of(p.name for p in directory.iterdir()) if parts is None else parts:
    part = directory / name
    with _opened(part) as (checkpointer, place):
      leaves = checkpointer.restore(place)
    for path in list(leaves):
      yield part, path, leaves.pop(path)


def leaves(directory: epath.Path, parts: Iterable[str]) -> dict[str, Leaf]:
  """Shapes and stored dtypes of all leaves, without reading them."""
  found = {}
  for name in parts:
    part = directory / name
    with _opened(part) as (checkpointer, place):
      metadata = checkpointer.metadata(place).item_metadata.tree
      for path, leaf in metadata.items():
        leaf = leaf['values'] if isinstance(leaf, dict) else leaf
        found[path] = Leaf(tuple(leaf.shape), str(np.dtype(leaf.dtype)))
  return found


@contextlib.contextmanager
def _opened(part: epath.Path) -> Iterator[tuple[Any, epath.Path]]:
  """Orbax's checkpointer, and the path by which it reads a part; errors as in `_damage`."""
  import orbax.checkpoint as ocp
  check_regular(part)
  with (_damage(part), orbax.quiet(), orbax.plain(part) as place,
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer):
    yield checkpointer, place


@contextlib.contextmanager
def _damage(part: epath.Path) -> Iterator[None]:
  """CheckpointError for whatever Orbax, TensorStore and arrays of wrong kinds raise."""
  try:
    yield
  except Exception as e:
    raise CheckpointError(
        f"The weights in '{part}' are damaged; copy or import the model again. ({first_line(e)})") from e


def first_line(error: BaseException, length: int = 200) -> str:
  """The beginning of an error's text, for use inside a one-line message."""
  return (str(error) or type(error).__name__).strip().splitlines()[0][:length]
