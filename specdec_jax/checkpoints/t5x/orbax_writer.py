"""Writes Orbax's format as T5X reads it: the item `state/`, a zarr array for each parameter, _METADATA over them all.

Orbax itself writes what it is given whole; here a leaf is in memory at a time.
"""

import json

import numpy as np
from etils import epath

from specdec_jax.checkpoints.t5x.orbax import METADATA
from specdec_jax.checkpoints.t5x.writing import describe, t5_config, write_array
from specdec_jax.checkpoints.writers import Export, writing

_KEY_OF_DICT = 2


def write(directory: epath.Path, model: Export) -> list[str]:
  """See `exporter._WRITE`. There is no optimiser's state in it."""
  t5_config(model)
  state = directory / f'checkpoint_{model.step}' / 'state'
  state.mkdir(parents=True)
  tree = {}

  def add(names: tuple[str, ...], value: np.ndarray) -> None:
    write_array(state, '.'.join(names), value)
    tree[str(names)] = {
        'key_metadata': [{'key': name, 'key_type': _KEY_OF_DICT} for name in names],
        'value_metadata': {'value_type': 'np.ndarray', 'skip_deserialize': False}}

  add(('state', 'step'), np.asarray(model.step, np.int32))
  for path in model.leaves:
    add(('target', *path.split('/')), model.read(path))
  with writing(state / METADATA):
    (state / METADATA).write_text(json.dumps({
        'tree_metadata': tree, 'use_ocdbt': False, 'use_zarr3': False,
        'store_array_data_equal_to_fill_value': True, 'custom_metadata': None}))
  return describe(directory, model)
