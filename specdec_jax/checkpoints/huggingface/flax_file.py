"""flax_model.msgpack, which transformers wrote from its Flax models; read whole.

Kernels are the other way round than in the files of PyTorch, whose names and shapes are handed out.
"""

from typing import Any

import numpy as np
from etils import epath
from flax import traverse_util

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checks import shown
from specdec_jax.errors import CheckpointError
from specdec_jax.files.reading import size_of

_LAST = {'kernel': 'weight', 'embedding': 'weight', 'scale': 'weight'}


class FlaxFile:
  """One file.

  Attributes:
    leaves: {name as in a PyTorch file: Leaf}.
  """

  def __init__(self, path: epath.Path):
    self._arrays = {}
    for names, value in _arrays_of(path).items():
      if not all(isinstance(name, str) for name in names) or not isinstance(value, (np.ndarray, np.generic)):
        raise CheckpointError(f"'{path}' has {shown(value)} under {shown(names)}, not a named array; it is damaged, "
                              'copy it again.')
      value = np.asarray(value)
      self._arrays['.'.join([*names[:-1], _LAST.get(names[-1], names[-1])])] = (
          value.T if names[-1] == 'kernel' else value)
    self.leaves = {name: Leaf(value.shape, value.dtype.name) for name, value in self._arrays.items()}

  def read(self, name: str) -> np.ndarray:
    return self._arrays[name]


def _arrays_of(path: epath.Path) -> dict[tuple, Any]:
  from flax import serialization
  size_of(path, 'Flax file', error=CheckpointError)
  try:
    found = serialization.msgpack_restore(path.read_bytes())
    if not isinstance(found, dict) or not found:
      raise ValueError('it holds no dictionary of arrays')
    return traverse_util.flatten_dict(found)
  except Exception as e:  # msgpack, flax and NumPy have many kinds for damaged input
    reason = ' '.join(str(e).split())[:200] or type(e).__name__
    raise CheckpointError(f"'{path}' is truncated, damaged or not a Flax file ({reason}); copy it again.") from e
