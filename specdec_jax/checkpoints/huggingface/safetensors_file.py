"""safetensors files read by byte ranges, so that gs:// works like a local disk.

A file is 8 bytes that tell the length of a JSON header, the header, and the bytes of the arrays. What the safetensors
library refuses is refused here: the arrays must fill what follows the header in the order of their offsets, without
a hole or an overlap, and each must have the bytes that its shape and dtype need.
"""

import json
from typing import Any

import numpy as np
from etils import epath

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import dtype_of
from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.reading import size_of

FLOATS = {'F64': 'float64', 'F32': 'float32', 'F16': 'float16', 'BF16': 'bfloat16'}
_BITS = {'BOOL': 8, 'U8': 8, 'I8': 8, 'F8_E5M2': 8, 'F8_E4M3': 8, 'F8_E8M0': 8, 'F8_E4M3FNUZ': 8, 'F8_E5M2FNUZ': 8,
         'F4': 4, 'F6_E2M3': 6, 'F6_E3M2': 6, 'I16': 16, 'U16': 16, 'F16': 16, 'BF16': 16, 'I32': 32, 'U32': 32,
         'F32': 32, 'I64': 64, 'U64': 64, 'F64': 64, 'C64': 64}
_MOST_HEADER = 100_000_000  # bytes, the library's own limit
_MOST = 2 ** 64 - 1


class SafetensorsFile:
  """One file, its header read and checked.

  Attributes:
    leaves: {name in the file: Leaf}.
  """

  def __init__(self, path: epath.Path):
    self._path = path
    if not path.exists():
      raise CheckpointError(f"'{path}' is missing; the checkpoint is incomplete, copy it again.")
    size = size_of(path, 'safetensors file', error=CheckpointError)
    try:
      with path.open('rb') as f:
        length = int.from_bytes(f.read(8), 'little')
        if size < 8 or not 2 <= length <= min(size - 8, _MOST_HEADER):
          raise ValueError(f'its first 8 bytes promise a header of {length:,} bytes' if size >= 8 else f'{size} bytes')
        content = f.read(length)
      spans = spans_of(content)
    except (ValueError, OSError) as e:
      raise CheckpointError(f"'{path}' is truncated, damaged or not a safetensors file ({e}); copy it again.") from e
    end = max((last for _, _, last in spans.values()), default=0)
    if size != 8 + length + end:
      raise CheckpointError(f"'{path}' is {'truncated' if size < 8 + length + end else 'damaged'}: {size} bytes, its "
                            f'header promises {8 + length + end}; copy it again.')
    self.leaves = {name: leaf for name, (leaf, _, _) in spans.items()}
    self._start = {name: 8 + length + first for name, (_, first, _) in spans.items()}

  def read(self, name: str) -> np.ndarray:
    leaf = self.leaves[name]
    dtype = dtype_of(leaf.dtype)
    with self._path.open('rb') as f:
      f.seek(self._start[name])
      content = f.read(dtype.itemsize * int(np.prod(leaf.shape, dtype=np.int64)))
    try:
      return np.frombuffer(content, dtype).reshape(leaf.shape)
    except ValueError as e:
      raise CheckpointError(f"'{name}' of '{self._path}' is no longer there as its header says; "
                            'copy the checkpoint again.') from e


def spans_of(header: bytes) -> dict[str, tuple[Leaf, int, int]]:
  """{name: (Leaf, first byte, end)} of a header, in the order of the bytes.

  Raises:
    ValueError: what the safetensors library refuses too.
  """
  if not header.startswith(b'{'):
    raise ValueError('its header does not begin with a brace')
  try:
    entries = json_files.parse(header, 'its header', constants=False)
  except CheckpointError as e:
    raise ValueError(str(e).removesuffix('; copy it again.')) from e
  metadata = entries.pop('__metadata__', None)
  if metadata is not None and not (
      isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values())):
    raise ValueError('__metadata__ is not an object of texts')
  spans = {name: _span(name, entry) for name, entry in entries.items()}
  spans = dict(sorted(spans.items(), key=lambda item: item[1][1:]))
  before = 0
  for name, (_, first, last) in spans.items():
    if first != before:
      raise ValueError(f'{name!r} begins at byte {first}, what stands before it ends at {before}')
    before = last
  return spans


def _span(name: str, entry: Any) -> tuple[Leaf, int, int]:
  try:
    name.encode()
    dtype, shape, (first, last) = entry['dtype'], entry['shape'], entry['data_offsets']
  except (KeyError, TypeError, ValueError) as e:
    raise ValueError(f'{name!r} has no dtype, shape and data_offsets') from e
  if not isinstance(dtype, str) or dtype not in _BITS:
    raise ValueError(f'{name!r} has the unknown dtype {json.dumps(dtype)[:80]}')
  if not isinstance(shape, list) or not all(type(n) is int and 0 <= n <= _MOST for n in (*shape, first, last)):
    raise ValueError(f'{name!r} has a shape or data_offsets that are no whole numbers of at least 0')
  count = 1
  for n in shape:
    count *= n
    if count > _MOST:
      raise ValueError(f'{name!r} has more elements than can be')
  if last < first or 8 * (last - first) != count * _BITS[dtype]:
    raise ValueError(f'{name!r} has {last - first} bytes, {shape} of {dtype} needs {count * _BITS[dtype] / 8:g}')
  return Leaf(tuple(shape), FLOATS.get(dtype, dtype)), first, last
