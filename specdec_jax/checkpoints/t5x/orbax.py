"""Orbax's format as T5X writes it: with the item `state/` or without, OCDBT or a folder for each array."""

from typing import Any

from etils import epath
from flax import traverse_util

from specdec_jax.checkpoints.t5x import index as index_lib
from specdec_jax.checkpoints.t5x.arrays import TensorStoreReader, array_spec, in_memory, path_of
from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.reading import check_regular

METADATA, OCDBT = '_METADATA', 'manifest.ocdbt'
_PLACEHOLDER = 'PLACEHOLDER://'


def open_orbax(root: epath.Path) -> TensorStoreReader:
  """Opens `checkpoint_N`; names come from _METADATA, or from the msgpack index that came before it."""
  directory = index_lib.state_directory(root, METADATA, OCDBT, index_lib.NAME)
  try:
    flat = traverse_util.flatten_dict(
        index_lib.read_index(directory) if (directory / index_lib.NAME).exists() else {})
  except RecursionError:
    raise CheckpointError(f"'{directory / index_lib.NAME}' is nested too deeply to be read.") from None
  names, driver = list(flat), 'zarr'
  if (directory / METADATA).exists():
    names, driver = _metadata(directory / METADATA)
  elif not flat:
    raise CheckpointError(f"'{directory}' has no file '{METADATA}', which names its arrays; copy the checkpoint again.")
  names = [name for name in names if name[0] == 'target' and len(name) > 1]
  if not names:
    raise CheckpointError(f"'{directory}' has no weights under 'target'; is it a T5X checkpoint written with Orbax?")
  check_regular(directory)
  ocdbt = (directory / OCDBT).exists()
  values: dict[str, Any] = {}
  for name in names:
    path, value = path_of(name[1:], directory), flat.get(name)
    if value is None or isinstance(value, str):  # a str is a reference to an array on disk
      folder = value.removeprefix(_PLACEHOLDER) if value else '.'.join(name)
      values[path] = array_spec(directory, folder, driver, ocdbt)
    else:
      values[path] = in_memory(value, path, directory)
  return TensorStoreReader(str(directory), values)


def _metadata(path: epath.Path) -> tuple[list[tuple[str, ...]], str]:
  """The names of all arrays, and how they are stored."""
  content = json_files.read_json(path, 'metadata')
  try:
    names = [tuple(key['key'] for key in entry['key_metadata']) for entry in content['tree_metadata'].values()]
    if type(content.get('use_zarr3', False)) is not bool:
      raise TypeError(content['use_zarr3'])
  except (KeyError, TypeError, AttributeError) as e:
    raise CheckpointError(f"'{path}' is not Orbax's metadata, or damaged; copy the checkpoint again.") from e
  if not all(names) or not all(isinstance(part, str) for name in names for part in name):
    raise CheckpointError(f"'{path}' has a parameter without a name; copy the checkpoint again.")
  return names, 'zarr3' if content.get('use_zarr3') else 'zarr'
