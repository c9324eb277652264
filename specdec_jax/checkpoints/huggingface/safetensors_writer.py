"""Writes safetensors files one array after another; `safetensors_file` has the format."""

import contextlib
import json
from collections.abc import Callable, Iterator

import numpy as np
from etils import epath

from specdec_jax.checkpoints.huggingface.safetensors_file import FLOATS
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import num_bytes
from specdec_jax.checkpoints.writers import writing

_NAMES = {dtype: name for name, dtype in FLOATS.items()}
_METADATA = {'format': 'pt'}  # transformers refuses a file without


@contextlib.contextmanager
def new_file(path: epath.Path, leaves: dict[str, Leaf]) -> Iterator[Callable[[str, np.ndarray], None]]:
  """Yields `add(name, value)`, to be called for every leaf in the order of `leaves`."""
  entries, end = {}, 0
  for name, leaf in leaves.items():
    first, end = end, end + num_bytes(leaf.shape, leaf.dtype)
    entries[name] = {'dtype': _NAMES[leaf.dtype], 'shape': list(leaf.shape), 'data_offsets': [first, end]}
  header = json.dumps({'__metadata__': _METADATA, **entries}, separators=(',', ':')).encode()
  header += b' ' * (-len(header) % 8)
  waiting = iter(leaves.items())
  with writing(path), path.open('wb') as f:
    f.write(len(header).to_bytes(8, 'little') + header)

    def add(name: str, value: np.ndarray) -> None:
      assert (name, Leaf(value.shape, value.dtype.name)) == next(waiting)
      f.write(np.ascontiguousarray(value).tobytes())

    yield add
  assert next(waiting, None) is None
