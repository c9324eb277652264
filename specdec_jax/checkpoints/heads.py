"""Heads on a target as directories: heads.json, weights, and files.json over both."""

import dataclasses
import json
import os

import jax
import jax.numpy as jnp
from etils import epath
from flax import traverse_util
from jax.sharding import NamedSharding, PartitionSpec as P

from specdec_jax import arguments
from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.checkpoints.directory import check_files
from specdec_jax.drafters.heads import KINDS, HeadsDrafter
from specdec_jax.errors import CheckpointError
from specdec_jax.files import checksums, json_files
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.files.replacing import only
from specdec_jax.models import heads
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.parallel.mesh import Mesh

_DESCRIPTION, _WEIGHTS = 'heads.json', 'weights'


def save_heads(drafter: HeadsDrafter, path: str | os.PathLike, storage: str = 'float32',
               overwrite: bool = False) -> None:
  """Writes a directory (local or gs://) for `load_heads`; the target's own weights are not in it.

  Args:
    drafter: what to write.
    path: a directory that does not exist.
    storage: 'float32', 'bfloat16' or 'int8', as in `save_model`.
    overwrite: replace existing heads.
  """
  with new_directory(path, _foreign if overwrite else None) as directory:
    with storage_lib.Writer(directory / _WEIGHTS, storage) as writer:
      for name, value in traverse_util.flatten_dict(drafter.params, sep='/').items():
        writer.add(name, value)
    fields = {'storage': storage, **dataclasses.asdict(drafter.config)}
    (directory / _DESCRIPTION).write_text(json.dumps(fields, indent=1) + '\n')
    checksums.seal(directory)


@arguments.checked(path=arguments.path, dtype=arguments.optional(arguments.text_of(('float32', 'bfloat16'))),
                   mesh=arguments.optional(arguments.instance(Mesh, '@Mesh(), or None')))
def load_heads(path: str | os.PathLike, dtype: str | None = None, mesh: Mesh | None = None) -> HeadsDrafter:
  """Reads what `save_heads` or the train_heads run wrote.

  Args:
    path: a local or gs:// directory.
    dtype: 'float32' or 'bfloat16' instead of the configuration's; best the target's.
    mesh: that the target lies on; the heads are whole on every device of it.

  Raises:
    CheckpointError: no heads there, or they are damaged, or do not fit their description.
  """
  directory = absolute(path)
  if not (directory / _DESCRIPTION).exists():
    raise CheckpointError(f"No heads at '{directory}' (it has no {_DESCRIPTION}); train them with "
                          'gin/runs/train_heads.gin.')
  parts = check_files(directory)
  config = _config(directory / _DESCRIPTION)
  if dtype is not None:
    config = dataclasses.replace(config, dtype=dtype)
  place = jnp.asarray if mesh is None else lambda x: jax.device_put(x, NamedSharding(mesh.devices(), P()))
  found = {name: place(value) for name, value in storage_lib.read(directory / _WEIGHTS, config.dtype, parts)}
  expected = traverse_util.flatten_dict(
      jax.eval_shape(lambda: heads.initial(config, jax.random.key(0))), sep='/')
  if {n: x.shape for n, x in found.items()} != {n: x.shape for n, x in expected.items()}:
    raise CheckpointError(f"The weights at '{directory}' are not those of its {_DESCRIPTION}; copy the heads or train "
                          'them again.')
  return KINDS[config.kind](traverse_util.unflatten_dict(found, sep='/'), config)


def _config(path: epath.Path) -> HeadsConfig:
  fields = json_files.read_json(path, 'description of the heads')
  fields.pop('storage', None)
  try:
    return HeadsConfig(**fields)
  except (TypeError, ValueError, OverflowError) as e:
    raise CheckpointError(f"'{path}': {e}") from e


def _foreign(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`."""
  return only({_DESCRIPTION, _WEIGHTS, checksums.NAME})(directory) or (
      None if (directory / _DESCRIPTION).exists() else 'is no heads of this project')
