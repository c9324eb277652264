"""A draft from its own T5X checkpoint: restored and partitioned by T5X, its sizes read off its shapes."""

import functools
from collections.abc import Mapping
from typing import Any

import flax
from absl import logging
from t5x import models, utils
from t5x.examples.t5 import network

from specdec_jax.checkpoints.formats import T5X_FORMATS, guess_format
from specdec_jax.checkpoints.source import prepare
from specdec_jax.checkpoints.t5x.fields import from_t5x, to_t5x
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import existing_directory
from specdec_jax.models.config import T5Config

COLLECTION = 'draft'  # of flax variables, beside 'params'
_SHAPES = {'encoder_input_tokens': (1, 1), 'decoder_input_tokens': (1, 1)}


class Draft:
  """Where a draft's weights lie, and which network they are of.

  Attributes:
    path: its checkpoint.
  """

  def __init__(self, path: str, dtype: str | None = None, module: Any = None):
    """Nothing is read yet.

    Args:
      path: `checkpoint_N` of T5X, local or gs://.
      dtype: what weights are restored as, 'float32' or 'bfloat16'; None as they are stored.
      module: its network, `t5x.examples.t5.network.Transformer`; None reads its sizes off the checkpoint, with the
        assumptions of an import, and computes in `dtype`.
    """
    self.path, self._dtype, self._module = path, dtype, module

  @functools.cached_property
  def config(self) -> T5Config:
    """Its sizes.

    Raises:
      CheckpointError: no checkpoint of T5X, or it is damaged, or of no T5.
    """
    if self._module is not None:
      return from_t5x(self._module.config)
    directory = existing_directory(self.path)
    kind = guess_format(directory)
    if kind not in T5X_FORMATS:
      raise CheckpointError(f"The draft '{self.path}' is no checkpoint of T5X; name its directory, checkpoint_N.")
    source = prepare(directory, kind, storage=self._dtype)
    for sentence in source.assumed:
      logging.info('Draft: %s', sentence)
    assert isinstance(source.config, T5Config)  # as all of T5X's formats
    return source.config

  @functools.cached_property
  def _model(self) -> models.EncoderDecoderModel:
    module = self._module or network.Transformer(network.T5Config(**to_t5x(self.config)))
    return models.EncoderDecoderModel(module, None, None, optimizer_def=None)

  def variables(self, rng: Any) -> dict[str, Any]:
    """Initial weights and their axes as flax collections, for T5X to lay out."""
    made = flax.core.unfreeze(self._model.get_initial_variables(rng, _SHAPES))
    return {COLLECTION: made['params'], f'{COLLECTION}_axes': made['params_axes']}

  def restore(self, partitioner: Any) -> Mapping[str, Any]:
    """The weights as T5X restores them, each device's part on it: {'draft': parameters}."""
    initializer = utils.TrainStateInitializer(
        optimizer_def=None, init_fn=self._model.get_initial_variables, input_shapes=_SHAPES, partitioner=partitioner)
    restore = utils.RestoreCheckpointConfig(path=self.path, mode='specific', dtype=self._dtype, strict=False)
    state, _ = utils.create_checkpoint_manager_and_restore(
        initializer, partitioner, restore, restore.path, None, use_orbax=True)
    return flax.core.freeze({COLLECTION: state.params})
