"""From checkpoints on a disk, by T5X's own functions, as its infer.py, eval.py and InteractiveModel call them."""

import functools

import jax
import numpy as np
import pytest
import tiny

pytest.importorskip('t5x.models', reason="T5X is not installed: pip install -e '.[t5x]'")

import tensorflow as tf
from t5x import checkpoints, partitioning, utils

from specdec_jax.checkpoints.directory import save_model
from specdec_jax.checkpoints.exporter import export_checkpoint
from specdec_jax.errors import CheckpointError
from specdec_jax.integrations import t5x as integration


@pytest.fixture(scope='module')
def exported(weights, tmp_path_factory):
  """(the target's checkpoint, the draft's): T5X's own format and Orbax."""
  folder = tmp_path_factory.mktemp('exported')
  for model, name, checkpoint_format in zip(weights, ('target', 'draft'), ('t5x', 't5x_orbax')):
    save_model(model, folder / f'{name}-model')
    export_checkpoint(folder / f'{name}-model', folder / name, checkpoint_format, note=lambda text: None)
  return tuple(str(folder / name / 'checkpoint_0') for name in ('target', 'draft'))


def restored(model, path, batch, draft=None):
  """(the state, its axes, the partitioner) as infer.py makes them."""
  partitioner = partitioning.PjitPartitioner(num_partitions=1)
  initializer, manager = utils.TrainStateInitializer, checkpoints.OrbaxCheckpointManagerInterface
  if draft is not None:
    initializer = functools.partial(integration.TrainStateInitializer, draft=draft)
    manager = functools.partial(integration.CheckpointManager, draft=draft)
  made = initializer(optimizer_def=None, init_fn=model.get_initial_variables, partitioner=partitioner,
                     input_shapes={name: value.shape for name, value in batch.items()})
  restore = utils.RestoreCheckpointConfig(path=path, mode='specific', strict=False, checkpoint_manager_cls=manager)
  state, _ = utils.create_checkpoint_manager_and_restore(made, partitioner, restore, path, None, use_orbax=True)
  return state, made.train_state_axes, partitioner


def test_inference_with_a_draft_gives_what_t5x_gives(exported, plain, weights, batch):
  draft = integration.Draft(exported[1])
  speculative = integration.SpeculativeModel(plain(), draft, gamma=3)
  examples = tf.data.Dataset.from_tensor_slices(batch).enumerate()
  found = []
  for model, of in ((plain(), None), (speculative, draft)):
    state, axes, partitioner = restored(model, exported[0], batch, of)
    infer = utils.get_infer_fn(infer_step=model.predict_batch_with_aux, batch_size=5, train_state_axes=axes,
                               partitioner=partitioner)
    tokens, aux = infer(examples, train_state=state, rng=jax.random.PRNGKey(0))
    found.append([row for _, row in sorted(tokens, key=lambda item: item[0])])
    assert np.shape(aux['scores']) == (5,)
  np.testing.assert_array_equal(*found)
  jax.tree.map(np.testing.assert_array_equal, dict(state.flax_mutables['draft'].unfreeze()), weights[1].params)
  jax.tree.map(np.testing.assert_array_equal, dict(state.params.unfreeze()), weights[0].params)
  kernels = axes.flax_mutables['draft']['decoder']['layers_0']['mlp']['wi_0']
  assert 'model' in kernels['kernel']  # split over devices as T5X splits the target's


def test_the_drafts_sizes_are_those_of_its_checkpoint(exported, weights, tmp_path):
  config, own = integration.Draft(exported[1]).config, weights[1].config
  assert (config.emb_dim, config.num_heads, config.num_decoder_layers, config.mlp_activations) == (
      own.emb_dim, own.num_heads, own.num_decoder_layers, own.mlp_activations)
  assert integration.Draft(exported[1], dtype='bfloat16').config.dtype == 'bfloat16'
  save_model(weights[1], tmp_path / 'model')
  with pytest.raises(CheckpointError, match='no checkpoint of T5X'):
    print(integration.Draft(str(tmp_path / 'model')).config)


def test_interactive_model(exported, plain, tmp_path):
  import seqio
  from t5x import decoding, interactive_model, models
  own = tiny.vocabulary(tmp_path, 'abcdefghijklmnopqrstuvwxyz', tiny.ROWS)
  assert own.size == tiny.ROWS  # no row is masked
  vocabulary = seqio.SentencePieceVocabulary(own.path, 0)
  target = models.EncoderDecoderModel(plain().module, vocabulary, vocabulary, optimizer_def=None,
                                      decode_fn=decoding.temperature_sample)
  draft = integration.Draft(exported[1])
  options = dict(
      batch_size=2, task_feature_lengths={'inputs': 7, 'targets': 9}, dtype=None, restore_mode='specific',
      checkpoint_path=exported[0], input_shapes={'encoder_input_tokens': (2, 7), 'decoder_input_tokens': (2, 9)})
  examples, texts = ['abc', 'fghij', 'k'], []
  for kind, model in ((interactive_model.InteractiveModel, target),
                      (integration.InteractiveModel, integration.SpeculativeModel(target, draft, gamma=2))):
    made = kind(output_dir=str(tmp_path / kind.__module__), partitioner=partitioning.PjitPartitioner(num_partitions=1),
                model=model, **options)
    texts.append(made.predict_with_aux(examples))
    assert not made.train_state.flax_mutables
  assert repr(texts[0]) == repr(texts[1])
