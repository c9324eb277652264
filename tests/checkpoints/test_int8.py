"""Weights that stay int8 in memory: the same numbers as int8 storage, a model of its own with a name of its own."""

import dataclasses
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.errors import SettingError
from specdec_jax.models.network import network
from specdec_jax.models.parameters import parameter_dtypes, parameter_shapes
from specdec_jax.parallel import partition
from specdec_jax.tpu import shapes
from specdec_jax.tpu.traffic import decoder_pass
from specdec_jax.training import losses

FIXTURES = pathlib.Path(__file__).parents[1] / 'fixtures'
TOKENS = np.array([[5, 9, 2, 1]], np.int32)


@pytest.fixture(scope='module', params=['families/flan_t5', 'families/codet5', 'hf/gpt2/target'])
def folder(request, tmp_path_factory):
  """A model directory, stored as int8."""
  path = tmp_path_factory.mktemp('int8') / 'model'
  import_checkpoint(FIXTURES / request.param, path, 'huggingface', storage='int8', note=lambda sentence: None)
  return path


def logits(model):
  """Op by op."""
  tokens = (TOKENS,) if model.config.decoder_only else (TOKENS, TOKENS)
  return np.asarray(network(model.config).apply({'params': model.params}, *tokens))


def num_bytes(model):
  return sum(x.nbytes for x in jax.tree.leaves(model.params))


def test_the_numbers_are_those_of_int8_storage(folder):
  whole, small = load_model(folder), load_model(folder, dtype='int8')
  assert small.config == dataclasses.replace(whole.config, int8_weights=True)
  assert 'int8 weights' in repr(small) and 'int8' not in repr(whole)
  found, wanted = logits(small), logits(whole)
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
  assert num_bytes(small) < 0.45 * num_bytes(whole)  # a scale for every 32 numbers, and the norms
  kept = {path: value.dtype.name for path, value in traverse_util.flatten_dict(small.params, sep='/').items()}
  assert kept == parameter_dtypes(small.config)
  assert {p: v.shape for p, v in traverse_util.flatten_dict(small.params, sep='/').items()} == parameter_shapes(
      small.config)
  half = load_model(folder, dtype='bfloat16')
  assert (half.config.dtype, half.config.int8_weights) == ('bfloat16', False)


def test_float_weights_become_what_int8_storage_makes_of_them(folder, tmp_path):
  whole, small = load_model(folder), load_model(folder, dtype='int8')
  save_model(whole, tmp_path / 'float')
  again = load_model(tmp_path / 'float', dtype='int8')
  for path, value in traverse_util.flatten_dict(small.params, sep='/').items():
    other = traverse_util.flatten_dict(again.params, sep='/')[path]
    np.testing.assert_allclose(np.asarray(other, np.float32), np.asarray(value, np.float32), rtol=1e-6, atol=0,
                               err_msg=path)


def test_it_is_saved_bit_for_bit(folder, tmp_path):
  small = load_model(folder, dtype='int8')
  with pytest.raises(SettingError, match="storage is 'float32', but the model's weights are int8: use 'int8'"):
    save_model(small, tmp_path / 'again')
  save_model(small, tmp_path / 'again', storage='int8')
  again = load_model(tmp_path / 'again', dtype='int8')
  assert again.config == small.config
  jax.tree.map(np.testing.assert_array_equal, again.params, small.params)
  assert not load_model(tmp_path / 'again').config.int8_weights


def test_every_weight_has_its_place_on_a_mesh(folder):
  small = load_model(folder, dtype='int8')
  mesh = partition.make_mesh(jax.devices()[:1])
  placed = partition.shardings(small, mesh)
  assert jax.tree.structure(placed) == jax.tree.structure(small.params)


@pytest.mark.parametrize('name', ['t5_1_1_small', 'gpt2'])
def test_the_planner_counts_a_byte_a_number(name):
  small, half = (shapes.abstract_model(name, dtype) for dtype in ('int8', 'bfloat16'))
  assert small.config.dtype == 'bfloat16' and small.config.int8_weights
  assert 0.5 < shapes.num_bytes(small.params) / shapes.num_bytes(half.params) < 0.53
  passes = [decoder_pass(model, 1, 1, 128, 137) for model in (small, half)]
  assert 0.5 < passes[0].weights / passes[1].weights < 0.52 and passes[0].caches == passes[1].caches
  assert jnp.dtype('int8') in {x.dtype for x in jax.tree.leaves(small.params)}


def test_it_cannot_be_trained(folder):
  small = load_model(folder, dtype='int8')
  with pytest.raises(SettingError, match='A model of int8 weights cannot be trained'):
    losses.ModelLoss(small.config).initial(0)
