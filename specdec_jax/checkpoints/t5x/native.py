"""T5X's own format: a msgpack index and a zarr array for each parameter. The optimiser's state is never opened."""

from typing import Any

import numpy as np
from etils import epath
from flax import traverse_util

from specdec_jax.checkpoints.t5x.arrays import TensorStoreReader, array_spec, in_memory, path_of
from specdec_jax.checkpoints.t5x.index import NAME, read_index, state_directory
from specdec_jax.errors import CheckpointError
from specdec_jax.files.reading import check_regular


def open_native(root: epath.Path) -> TensorStoreReader:
  """Opens `checkpoint_N` in T5X's own format."""
  directory = state_directory(root, NAME)
  index = read_index(directory)
  try:
    target = index['optimizer']['target']
    flat = traverse_util.flatten_dict(target, is_leaf=_is_spec_item)
  except (KeyError, TypeError, AttributeError, AssertionError):
    raise CheckpointError(
        f"'{directory / NAME}' has no weights under optimizer/target; is it a T5X checkpoint?") from None
  except RecursionError:
    raise CheckpointError(f"'{directory / NAME}' is nested too deeply to be read.") from None
  check_regular(directory)
  values: dict[str, np.ndarray | dict] = {}
  for names, value in flat.items():
    path = path_of(names, directory / NAME)
    values[path] = (_spec(directory, value) if isinstance(value, dict) and 'driver' in value
                    else in_memory(value, path, directory / NAME))
  return TensorStoreReader(str(directory), values)


def _is_spec_item(unused_path, value) -> bool:
  return isinstance(value, dict) and 'driver' in value


def _spec(directory: epath.Path, spec: dict) -> dict:
  """T5X's spec with its path, relative to the checkpoint, made absolute.

  Older TensorStore versions kept the path beside `kvstore`. Chunks and
  compressor are left to the array's own metadata.
  """
  store = spec.get('kvstore')
  folder: Any = (store.get('path') if isinstance(store, dict) else None) or spec.get('path')
  return array_spec(directory, folder, spec['driver'], ocdbt=False)
