"""The files of a Hugging Face checkpoint: config.json, and weights in one file or in shards."""

import json

from etils import epath

from specdec_jax.checkpoints.safetensors_files import SafetensorsFile
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import is_remote


def open_files(directory: epath.Path) -> dict:
  """{name: the open file that holds it}, over all shards."""
  single, index = directory / 'model.safetensors', directory / 'model.safetensors.index.json'
  if index.exists():
    weight_map = read_json(index).get('weight_map')
    if not isinstance(weight_map, dict):
      raise CheckpointError(f"'{index}' has no weight_map; copy the checkpoint again.")
    shards = {name: SafetensorsFile(directory / name) for name in sorted(set(weight_map.values()))}
    absent = [name for name, shard in weight_map.items() if name not in shards[shard].leaves]
    if absent:
      raise CheckpointError(f"'{directory / weight_map[absent[0]]}' lacks '{absent[0]}', which "
                            f"'{index.name}' promises; copy the checkpoint again.")
    return {name: shards[shard] for name, shard in weight_map.items()}
  if single.exists():
    file = SafetensorsFile(single)
    return dict.fromkeys(file.leaves, file)
  return _open_torch_files(directory)


def _open_torch_files(directory: epath.Path) -> dict:
  names = sorted(p.name for p in directory.glob('pytorch_model*.bin'))
  if not names:
    raise CheckpointError(f"'{directory}' has no model.safetensors, "
                          'model.safetensors.index.json or pytorch_model.bin.')
  if is_remote(directory):
    raise CheckpointError(f"'{directory}': .bin files are read from a local disk; copy them first.")
  from specdec_jax.checkpoints import torch_files
  files = [torch_files.TorchFile(directory / name) for name in names]
  return {name: file for file in files for name in file.leaves}


def read_json(path: epath.Path) -> dict:
  if not path.exists():
    raise CheckpointError(f"'{path}' is missing; is it a Hugging Face checkpoint?")
  try:
    content = json.loads(path.read_text())
  except ValueError as e:
    raise CheckpointError(f"'{path}' is truncated or not JSON; copy the checkpoint again.") from e
  if not isinstance(content, dict):
    raise CheckpointError(f"'{path}' is not a JSON object.")
  return content
