"""The weights of a Hugging Face checkpoint: one file, or shards that an index names."""

import re
from collections.abc import Callable
from typing import Protocol

import numpy as np
from etils import epath

from specdec_jax import checks
from specdec_jax.checkpoints.huggingface.flax_file import FlaxFile
from specdec_jax.checkpoints.huggingface.safetensors_file import SafetensorsFile
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.locations import is_remote

SAFETENSORS, INDEX = 'model.safetensors', 'model.safetensors.index.json'
MSGPACK, MSGPACK_INDEX = 'flax_model.msgpack', 'flax_model.msgpack.index.json'
_BIN = re.compile(r'pytorch_model.*\.bin')


class WeightFile(Protocol):
  """An open file of weights: what it holds, and one array at a time."""

  leaves: dict[str, Leaf]

  def read(self, name: str) -> np.ndarray:
    ...


def open_files(directory: epath.Path) -> dict[str, WeightFile]:
  """{name: the open file that holds it}, over all shards."""
  if (directory / INDEX).exists():
    return _open_shards(directory, directory / INDEX, SafetensorsFile)
  if (directory / SAFETENSORS).exists():
    return _whole(SafetensorsFile(directory / SAFETENSORS))
  names = sorted(p.name for p in directory.iterdir() if _BIN.fullmatch(p.name))
  if names:
    return _open_torch_files(directory, names)
  if (directory / MSGPACK_INDEX).exists():
    return _open_shards(directory, directory / MSGPACK_INDEX, FlaxFile, of_flax=True)
  if (directory / MSGPACK).exists():
    return _whole(FlaxFile(directory / MSGPACK))
  raise CheckpointError(f"'{directory}' has no {SAFETENSORS}, {INDEX}, pytorch_model.bin or {MSGPACK}.")


def _whole(file: WeightFile) -> dict[str, WeightFile]:
  return dict.fromkeys(file.leaves, file)


def _open_shards(directory: epath.Path, index: epath.Path, opened: Callable[[epath.Path], WeightFile],
                 of_flax: bool = False) -> dict[str, WeightFile]:
  places = json_files.read_json(index, 'index of shards').get('weight_map')
  if not isinstance(places, dict) or not places:
    raise CheckpointError(f"'{index}' has no weight_map; copy the checkpoint again.")
  strange = next((shard for shard in places.values() if not _is_name(shard)), None)
  if strange is not None or None in places.values():
    raise CheckpointError(f"'{index}' names the shard {checks.shown(strange)}, which is not the name of a file beside "
                          'it; copy the checkpoint again.')
  shards = {name: opened(directory / name) for name in sorted(set(places.values()))}
  if of_flax:  # the index has Flax's names: the files know which they hold
    held = sorted(name for shard in shards.values() for name in shard.leaves)
    if len(held) != len(places) or len(set(held)) != len(held):
      raise CheckpointError(f"'{index}' promises {len(places)} arrays, and its shards hold {len(held)} "
                            f'({len(set(held))} names); copy the checkpoint again.')
    return {name: shard for shard in shards.values() for name in shard.leaves}
  absent = [name for name, shard in places.items() if name not in shards[shard].leaves]
  if absent:
    raise CheckpointError(f"'{directory / places[absent[0]]}' lacks '{absent[0]}', which '{index.name}' promises; "
                          'copy the checkpoint again.')
  return {name: shards[shard] for name, shard in places.items()}


def _is_name(shard) -> bool:
  """Whether a value names a file in the same directory."""
  return isinstance(shard, str) and bool(re.fullmatch(r'[^/\\\0]+', shard)) and shard not in ('.', '..')


def _open_torch_files(directory: epath.Path, names: list[str]) -> dict[str, WeightFile]:
  if is_remote(directory):
    raise CheckpointError(f"'{directory}': .bin files are read from a local disk; copy them first.")
  from specdec_jax.checkpoints.huggingface import torch_file
  files = [torch_file.TorchFile(directory / name) for name in names]
  return {name: file for file in files for name in file.leaves}
