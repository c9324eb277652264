"""safetensors files read by byte ranges, so that gs:// works like a local disk."""

import json

import numpy as np
from etils import epath

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import dtype_of
from specdec_jax.errors import CheckpointError

_DTYPES = {'F64': 'float64', 'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}


class SafetensorsFile:
  """One file: an 8-byte header length, a JSON header, then the arrays' bytes.

  Attributes:
    leaves: {name in the file: Leaf}.
  """

  def __init__(self, path: epath.Path):
    self._path, self._start, self.leaves = path, {}, {}
    try:
      size = path.stat().length
      with path.open('rb') as f:
        header_length = int.from_bytes(f.read(8), 'little')
        if not 0 < header_length <= size - 8:
          raise ValueError('no header')
        header = json.loads(f.read(header_length))
      header.pop('__metadata__', None)
      end = 0
      for name, entry in header.items():
        first, last = entry['data_offsets']
        self.leaves[name] = Leaf(tuple(entry['shape']), _DTYPES.get(entry['dtype'], entry['dtype']))
        self._start[name] = 8 + header_length + first
        end = max(end, last)
    except FileNotFoundError as e:
      raise CheckpointError(f"'{path}' is missing; the checkpoint is incomplete.") from e
    except (ValueError, KeyError, TypeError, AttributeError) as e:
      raise CheckpointError(f"'{path}' is truncated or not a safetensors file.") from e
    if size != 8 + header_length + end:
      raise CheckpointError(f"'{path}' is truncated: {size} bytes, its header promises "
                            f'{8 + header_length + end}; copy it again.')

  def read(self, name: str) -> np.ndarray:
    leaf = self.leaves[name]
    dtype = dtype_of(leaf.dtype)
    with self._path.open('rb') as f:
      f.seek(self._start[name])
      content = f.read(dtype.itemsize * int(np.prod(leaf.shape, dtype=np.int64)))
    return np.frombuffer(content, dtype).reshape(leaf.shape)
