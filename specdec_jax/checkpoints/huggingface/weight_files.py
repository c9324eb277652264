"""The weights of a Hugging Face checkpoint: one file, or shards that an index names."""

import re
from typing import Protocol

import numpy as np
from etils import epath

from specdec_jax import checks
from specdec_jax.checkpoints.huggingface.safetensors_file import SafetensorsFile
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.locations import is_remote

SAFETENSORS, INDEX = 'model.safetensors', 'model.safetensors.index.json'
_BIN = re.compile(r'pytorch_model.*\.bin')


class WeightFile(Protocol):
  """An open file of weights: what it holds, and one array at a time."""

  leaves: dict[str, Leaf]

  def read(self, name: str) -> np.ndarray:
    ...


def open_files(directory: epath.Path) -> dict[str, WeightFile]:
  """{name: the open file that holds it}, over all shards."""
  index = directory / INDEX
  if index.exists():
    return _open_shards(directory, index)
  if (directory / SAFETENSORS).exists():
    file = SafetensorsFile(directory / SAFETENSORS)
    return dict.fromkeys(file.leaves, file)
  return _open_torch_files(directory)


def _open_shards(directory: epath.Path, index: epath.Path) -> dict[str, WeightFile]:
  places = json_files.read_json(index, 'index of shards').get('weight_map')
  if not isinstance(places, dict) or not places:
    raise CheckpointError(f"'{index}' has no weight_map; copy the checkpoint again.")
  strange = next((shard for shard in places.values() if not _is_name(shard)), None)
  if strange is not None or None in places.values():
    raise CheckpointError(f"'{index}' names the shard {checks.shown(strange)}, which is not the name of a file beside "
                          'it; copy the checkpoint again.')
  shards = {name: SafetensorsFile(directory / name) for name in sorted(set(places.values()))}
  absent = [name for name, shard in places.items() if name not in shards[shard].leaves]
  if absent:
    raise CheckpointError(f"'{directory / places[absent[0]]}' lacks '{absent[0]}', which '{index.name}' promises; "
                          'copy the checkpoint again.')
  return {name: shards[shard] for name, shard in places.items()}


def _is_name(shard) -> bool:
  """Whether a value names a file in the same directory."""
  return isinstance(shard, str) and bool(re.fullmatch(r'[^/\\\0]+', shard)) and shard not in ('.', '..')


def _open_torch_files(directory: epath.Path) -> dict[str, WeightFile]:
  names = sorted(p.name for p in directory.iterdir() if _BIN.fullmatch(p.name))
  if not names:
    raise CheckpointError(f"'{directory}' has no {SAFETENSORS}, {INDEX} or pytorch_model.bin.")
  if is_remote(directory):
    raise CheckpointError(f"'{directory}': .bin files are read from a local disk; copy them first.")
  from specdec_jax.checkpoints.huggingface import torch_file
  files = [torch_file.TorchFile(directory / name) for name in names]
  return {name: file for file in files for name in file.leaves}
