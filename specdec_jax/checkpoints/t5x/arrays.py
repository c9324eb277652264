"""The arrays of a T5X checkpoint, opened through TensorStore, which reads their sizes only."""

import math
import os
import re

import numpy as np
from etils import epath

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import first_line
from specdec_jax.checks import shown
from specdec_jax.errors import CheckpointError
from specdec_jax.files.checksums import is_inside
from specdec_jax.files.locations import kvstore

DRIVERS = ('zarr', 'zarr3')


class TensorStoreReader:
  """Leaves that are arrays in memory or TensorStore specs; see `readers.Reader`. Each is read when asked for."""

  config, assumed, notes = None, frozenset(), []

  def __init__(self, source: str, values: dict[str, np.ndarray | dict]):
    """Opens every array of {path: array or spec}."""
    import tensorstore as ts
    self.source = source
    opening = {path: ts.open(value, read=True, open=True) if isinstance(value, dict) else value
               for path, value in values.items()}
    self._arrays, broken = {}, []
    for path, array in opening.items():
      try:
        self._arrays[path] = array.result() if isinstance(array, ts.Future) else array
      except Exception as e:  # TensorStore raises ValueError and its own kinds
        broken.append((path, e))
    if broken:
      path, error = broken[0]
      raise CheckpointError(
          f"Of '{source}' {len(broken)} of {len(values)} arrays cannot be opened (the first: '{path}'): it is "
          f'incomplete or damaged, copy it again. ({first_line(error)})')
    self.leaves = {path: Leaf(tuple(a.shape), str(getattr(a.dtype, 'numpy_dtype', a.dtype)))
                   for path, a in self._arrays.items()}

  def read(self, path: str) -> np.ndarray:
    array, leaf = self._arrays[path], self.leaves[path]
    if isinstance(array, np.ndarray):
      return array
    if math.prod(leaf.shape) * array.dtype.numpy_dtype.itemsize > _memory():
      raise CheckpointError(f"'{path}' of '{self.source}' is {list(leaf.shape)} by its description, more than this "
                            'machine has memory for; is it damaged?')
    try:
      return array.read().result()
    except Exception as e:
      raise CheckpointError(f"'{path}' of '{self.source}' is truncated or damaged; "
                            f'copy the checkpoint again. ({first_line(e)})') from e

  def check_copies(self) -> None:
    """There are none."""


def array_spec(directory: epath.Path, folder: str, driver: str, ocdbt: bool) -> dict:
  """TensorStore's description of an array in a checkpoint.

  A chunk that is not there is an error, not zeros: no weights are all zero.

  Raises:
    CheckpointError: a folder outside the checkpoint, or a driver that T5X does not write.
  """
  if not isinstance(folder, str) or not is_inside(folder := folder.rstrip('/')) or driver not in DRIVERS:
    raise CheckpointError(f"'{directory}' names the array {folder!r:.80} of the kind {driver!r:.80}, which is none of "
                          "T5X's; copy the checkpoint again.")
  store = kvstore(directory)
  store = ({'driver': 'ocdbt', 'base': store, 'path': f'{folder}/'} if ocdbt else
           {**store, 'path': f"{store['path']}{folder}/"})
  return {'driver': driver, 'kvstore': store, 'fill_missing_data_reads': False}


def in_memory(value, name: str, source: epath.Path) -> np.ndarray:
  """A leaf that an index holds itself."""
  if isinstance(value, (np.ndarray, np.number, float)):
    return np.asarray(value)
  raise CheckpointError(f"'{name:.100}' in '{source}' is {shown(value)}, not an array; copy the checkpoint again.")


def path_of(names: tuple, source: epath.Path) -> str:
  """The '/'-joined path of nested names."""
  strange = [n for n in names if not isinstance(n, str) or not re.fullmatch(r'[^/\0\n]+', n)]
  if strange:
    raise CheckpointError(f"'{source}' has a parameter named {strange[0]!r:.80}; copy the checkpoint again.")
  return '/'.join(names)


def _memory() -> int:
  """Bytes of memory of this machine."""
  return os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
