"""T5X checkpoints: its own format (msgpack index and zarr arrays) and Orbax's.

Arrays are opened through TensorStore, which reads their sizes only; each is
read when asked for. A checkpoint's optimiser state is never opened.
"""

import json
import os

import numpy as np
from etils import epath
from flax import serialization, traverse_util

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import first_line
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import existing_directory, kvstore

_INDEX, _METADATA, _OCDBT = 'checkpoint', '_METADATA', 'manifest.ocdbt'
_PLACEHOLDER = 'PLACEHOLDER://'


class TensorStoreReader:
  """Leaves that are arrays in memory or TensorStore specs; see `readers.Reader`."""

  def __init__(self, source: str, values: dict[str, np.ndarray | dict]):
    """Opens every array of {path: array or spec}."""
    import tensorstore as ts
    self.source = source
    opening = {path: ts.open(value, read=True, open=True) if isinstance(value, dict) else value
               for path, value in values.items()}
    self._arrays, broken = {}, []
    for path, array in opening.items():
      try:
        self._arrays[path] = array.result() if isinstance(array, ts.Future) else np.asarray(array)
      except Exception as e:  # TensorStore raises ValueError and its own kinds
        broken.append((path, e))
    if broken:
      path, error = broken[0]
      raise CheckpointError(
          f"{len(broken)} arrays of '{source}' are missing or damaged (the first: '{path}'); "
          f'the checkpoint is incomplete, copy it again. ({first_line(error)})')
    self.leaves = {path: Leaf(tuple(a.shape), str(getattr(a.dtype, 'numpy_dtype', a.dtype)))
                   for path, a in self._arrays.items()}

  def read(self, path: str) -> np.ndarray:
    array = self._arrays[path]
    if isinstance(array, np.ndarray):
      return array
    try:
      return array.read().result()
    except Exception as e:
      raise CheckpointError(f"'{path}' of '{self.source}' is truncated or damaged; "
                            f'copy the checkpoint again. ({first_line(e)})') from e


def open_native(path: str | os.PathLike) -> TensorStoreReader:
  """Opens `checkpoint_N` in T5X's own format."""
  directory = state_directory(existing_directory(path), _INDEX)
  index = read_index(directory)
  try:
    target = index['optimizer']['target']
  except (KeyError, TypeError):
    raise CheckpointError(
        f"'{directory / _INDEX}' has no weights under optimizer/target; "
        'is it a T5X checkpoint?') from None
  values = {}
  for names, value in traverse_util.flatten_dict(target, is_leaf=_is_spec_item).items():
    values['/'.join(names)] = _native_spec(directory, value) if isinstance(value, dict) else value
  return TensorStoreReader(str(directory), values)


def open_orbax(path: str | os.PathLike) -> TensorStoreReader:
  """Opens `checkpoint_N` as T5X writes it with Orbax, with or without the item `state/`."""
  root = existing_directory(path)
  directory = state_directory(root, _METADATA, _OCDBT, _INDEX)
  index = read_index(directory) if (directory / _INDEX).exists() else {}
  names, driver = {}, 'zarr'
  if (directory / _METADATA).exists():
    metadata = _read_json(directory / _METADATA)
    driver = 'zarr3' if metadata.get('use_zarr3') else 'zarr'
    for entry in metadata['tree_metadata'].values():
      names[tuple(key['key'] for key in entry['key_metadata'])] = None
  flat = traverse_util.flatten_dict(index)
  names = {name: flat.get(name) for name in (names or flat) if name[0] == 'target'}
  if not names:
    raise CheckpointError(f"'{directory}' has no weights under 'target'; "
                          'is it a T5X checkpoint written with Orbax?')
  ocdbt = (directory / _OCDBT).exists()
  values = {}
  for name, value in names.items():
    if value is None or isinstance(value, str):  # a str is a reference to an array on disk
      folder = value.removeprefix(_PLACEHOLDER) if value else '.'.join(name)
      value = _array_spec(directory, folder, driver, ocdbt)
    values['/'.join(name[1:])] = value
  return TensorStoreReader(str(directory), values)


def state_directory(directory: epath.Path, *markers: str) -> epath.Path:
  """The directory itself or its item `state/`, whichever has one of the marker files."""
  for candidate in (directory / 'state', directory):
    if any((candidate / marker).exists() for marker in markers):
      return candidate
  raise CheckpointError(f"'{directory}' has no file '{markers[0]}'.")


def read_index(directory: epath.Path) -> dict:
  """The msgpack file `checkpoint` as nested dictionaries."""
  content = (directory / _INDEX).read_bytes()
  try:
    index = serialization.msgpack_restore(content)
    if not isinstance(index, dict):
      raise ValueError('not a dictionary')
    return index
  except Exception as e:  # msgpack has many kinds for damaged input
    if content.startswith(b'model_checkpoint_path'):
      raise CheckpointError(f"'{directory}' is a TensorFlow checkpoint; convert it with T5X's "
                            'convert_tf_checkpoint script first.') from e
    raise CheckpointError(f"'{directory / _INDEX}' is truncated or no T5X index; "
                          'copy the checkpoint again.') from e


def _is_spec_item(unused_path, value) -> bool:
  return isinstance(value, dict) and 'driver' in value


def _native_spec(directory: epath.Path, spec: dict) -> dict:
  """T5X's spec with its path, relative to the checkpoint, made absolute.

  Older TensorStore versions kept the path beside `kvstore`. Chunks and
  compressor are left to the array's own metadata.
  """
  folder = spec['kvstore'].get('path') or spec['path']
  return _array_spec(directory, folder, spec['driver'], ocdbt=False)


def _array_spec(directory: epath.Path, folder: str, driver: str, ocdbt: bool) -> dict:
  """A chunk that is not there is an error, not zeros: no weights are all zero."""
  store = kvstore(directory)
  folder = folder.rstrip('/') + '/'
  store = ({'driver': 'ocdbt', 'base': store, 'path': folder} if ocdbt else
           {**store, 'path': store['path'] + folder})
  return {'driver': driver, 'kvstore': store, 'fill_missing_data_reads': False}


def _read_json(path: epath.Path) -> dict:
  try:
    content = json.loads(path.read_text())
  except ValueError as e:
    raise CheckpointError(f"'{path}' is truncated; copy the checkpoint again.") from e
  if not isinstance(content, dict) or 'tree_metadata' not in content:
    raise CheckpointError(f"'{path}' is not Orbax's metadata.")
  return content
