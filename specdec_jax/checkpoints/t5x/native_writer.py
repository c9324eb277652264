"""Writes T5X's own format, version 3: a msgpack index and a zarr array for each parameter."""

import numpy as np
from etils import epath
from flax import traverse_util

from specdec_jax.checkpoints.t5x.index import NAME
from specdec_jax.checkpoints.t5x.writing import describe, t5_config, write_array
from specdec_jax.checkpoints.writers import Export, writing

_VERSION = 3


def write(directory: epath.Path, model: Export) -> list[str]:
  """See `exporter._WRITE`. There is no optimiser's state in it."""
  from flax import serialization
  t5_config(model)
  checkpoint = directory / f'checkpoint_{model.step}'
  checkpoint.mkdir()
  specs = {}
  for path in model.leaves:
    folder = f"target.{path.replace('/', '.')}"
    value = model.read(path)
    specs[path] = {'driver': 'zarr', 'dtype': value.dtype.name, 'kvstore': {'driver': 'file', 'path': f'{folder}/'},
                   'metadata': write_array(checkpoint, folder, value)}
  index = {'version': _VERSION, 'optimizer': {
      'state': {'step': np.asarray(model.step, np.int32)},
      'target': traverse_util.unflatten_dict(specs, sep='/')}}
  with writing(checkpoint / NAME):
    (checkpoint / NAME).write_bytes(serialization.msgpack_serialize(index))
  return describe(directory, model)
