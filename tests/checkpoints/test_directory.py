"""Model directories: what is saved is what is loaded, and damage is named."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util

from specdec_jax.checkpoints import directory as directory_lib, storage as storage_lib
from specdec_jax.errors import OutputError
from specdec_jax.model import Model
from specdec_jax.models.config import T5Config
from specdec_jax.models.parameters import CheckpointError, check_parameters, is_matrix, parameter_shapes
from specdec_jax.models.t5 import T5

TINY = T5Config(vocab_size=40, emb_dim=16, num_heads=2, head_dim=4, mlp_dim=24,
                num_encoder_layers=1, num_decoder_layers=2)


def random_model(config=TINY, seed=0):
  rng = np.random.default_rng(seed)
  params = {path: rng.normal(size=shape).astype(np.float32)
            for path, shape in parameter_shapes(config).items()}
  return Model(traverse_util.unflatten_dict(params, sep='/'), config, None)


def flat(model):
  return traverse_util.flatten_dict(model.params, sep='/')


@pytest.mark.parametrize('changes', [
    {}, {'logits_via_embedding': True, 'mlp_activations': ('relu',)},
    {'relative_bias_per_layer': True}, {'num_encoder_layers': 3, 'mlp_activations': ('silu',) * 3}])
def test_parameter_shapes_are_those_of_the_module(changes):
  config = dataclasses.replace(TINY, **changes)
  token = jax.ShapeDtypeStruct((1, 1), jnp.int32)
  variables = jax.eval_shape(T5(config).init, jax.random.key(0), token, token)
  found = traverse_util.flatten_dict(variables['params'], sep='/')
  assert {k: v.shape for k, v in found.items()} == parameter_shapes(config)


def test_float32_round_trip_is_exact(tmp_path):
  model = random_model()
  directory_lib.save_model(model, tmp_path / 'm')
  loaded = directory_lib.load_model(tmp_path / 'm')
  assert loaded.config == model.config and loaded.vocabulary is None
  jax.tree.map(np.testing.assert_array_equal, loaded.params, model.params)
  assert [p.name for p in tmp_path.iterdir()] == ['m']


def test_several_parts_round_trip(tmp_path):
  model = random_model()
  with storage_lib.Writer(tmp_path / 'w', 'float32', part_bytes=3000) as writer:
    for path, value in flat(model).items():
      writer.add(path, value)
  assert len(list((tmp_path / 'w').iterdir())) > 3
  found = dict(storage_lib.read(tmp_path / 'w', 'float32'))
  assert found.keys() == flat(model).keys()
  for path, value in flat(model).items():
    np.testing.assert_array_equal(found[path], value)


@pytest.mark.parametrize('storage, bits', [('bfloat16', 8), ('int8', 7)])
def test_small_storage_rounds_matrices_only(tmp_path, storage, bits):
  model = random_model()
  directory_lib.save_model(model, tmp_path / 'm', storage)
  loaded = flat(directory_lib.load_model(tmp_path / 'm'))
  for path, value in flat(model).items():
    assert loaded[path].dtype == np.float32
    if not is_matrix(path, value.shape):
      np.testing.assert_array_equal(loaded[path], value)
      continue
    error = np.abs(loaded[path] - value)
    axis = 1 if path.endswith('embedding') else 0
    largest = np.abs(value).max(axis, keepdims=True) if storage == 'int8' else np.abs(value)
    assert 0 < error.max() and (error <= largest * 2.0 ** -bits).all()


def test_int8_keeps_zero_channels(tmp_path):
  model = random_model()
  model.params['token_embedder']['embedding'][3] = 0
  directory_lib.save_model(model, tmp_path / 'm', 'int8')
  embedding = directory_lib.load_model(tmp_path / 'm').params['token_embedder']['embedding']
  assert not np.any(embedding[3]) and np.any(embedding[4])


def test_dtype_override(tmp_path):
  directory_lib.save_model(random_model(), tmp_path / 'm')
  loaded = directory_lib.load_model(tmp_path / 'm', dtype='bfloat16')
  assert loaded.config.dtype == 'bfloat16'
  for path, value in flat(loaded).items():
    assert value.dtype == (jnp.bfloat16 if is_matrix(path, value.shape) else jnp.float32)


def test_existing_output_is_kept_unless_asked(tmp_path):
  first, second = random_model(seed=0), random_model(seed=1)
  directory_lib.save_model(first, tmp_path / 'm')
  with pytest.raises(OutputError, match='exists already'):
    directory_lib.save_model(second, tmp_path / 'm')
  jax.tree.map(np.testing.assert_array_equal,
               directory_lib.load_model(tmp_path / 'm').params, first.params)
  directory_lib.save_model(second, tmp_path / 'm', overwrite=True)
  jax.tree.map(np.testing.assert_array_equal,
               directory_lib.load_model(tmp_path / 'm').params, second.params)


@pytest.mark.parametrize('stranger', ['notes.txt', 'weights/notes.txt', 'weights/part_x', 'config.json', None])
def test_overwriting_deletes_nothing_but_a_model(tmp_path, stranger):
  """`stranger` holds what is not a model's; None: a directory of something else."""
  model = tmp_path / 'm'
  if stranger is None:
    model.mkdir()
    (model / 'thesis.tex').write_text('mine')
  else:
    directory_lib.save_model(random_model(), model)
    (model / stranger).write_text('{"mine": 1}')
  before = {p: p.read_bytes() for p in model.rglob('*') if p.is_file()}
  with pytest.raises(OutputError, match="m' is not overwritten") as caught:
    directory_lib.save_model(random_model(seed=1), model, overwrite=True)
  assert '\n' not in str(caught.value)
  assert {p: p.read_bytes() for p in model.rglob('*') if p.is_file()} == before
  assert [p.name for p in tmp_path.iterdir()] == ['m']


def test_a_failed_save_leaves_nothing(tmp_path):
  with pytest.raises(ValueError, match='storage'):
    directory_lib.save_model(random_model(), tmp_path / 'm', 'float16')
  assert not list(tmp_path.iterdir())


def one_line_error(call):
  with pytest.raises(CheckpointError) as caught:
    call()
  assert '\n' not in str(caught.value)
  return str(caught.value)


def test_wrong_directories(tmp_path):
  load = directory_lib.load_model
  assert 'No model directory' in one_line_error(lambda: load(tmp_path / 'none'))
  with pytest.raises(FileNotFoundError, match='embedded:nosuch/model'):
    load('embedded:nosuch/model')
  assert 'import_checkpoint' in one_line_error(lambda: load(tmp_path))
  (tmp_path / 'config.json').write_text('{"model_type": "t5"}')
  assert 'huggingface' in one_line_error(lambda: load(tmp_path))
  (tmp_path / 'config.json').write_text('{"model_type":')
  assert 'truncated' in one_line_error(lambda: load(tmp_path))


def test_damaged_directories(tmp_path):
  model_dir = tmp_path / 'm'
  directory_lib.save_model(random_model(), model_dir)
  fields = json.loads((model_dir / 'config.json').read_text())
  (model_dir / 'config.json').write_text(json.dumps({**fields, 'depth': 3}))
  assert 'depth' in one_line_error(lambda: directory_lib.load_model(model_dir))
  (model_dir / 'config.json').write_text(json.dumps(fields))
  file = next((model_dir / 'weights').rglob('d/*'))
  file.write_bytes(file.read_bytes()[:20])
  message = one_line_error(lambda: directory_lib.load_model(model_dir))
  assert str(file) in message and 'has 20 bytes of' in message
  file.unlink()
  assert f'{file} is missing' in one_line_error(lambda: directory_lib.load_model(model_dir))


def test_all_differences_are_listed_with_both_shapes():
  found = parameter_shapes(TINY)
  found.pop('encoder/encoder_norm/scale')
  found['encoder/extra'] = (2, 3)
  found['token_embedder/embedding'] = (41, 16)
  with pytest.raises(CheckpointError) as caught:
    check_parameters(found, TINY, 'DIR')
  text = str(caught.value)
  assert 'missing: encoder/encoder_norm/scale [16]' in text
  assert 'superfluous: encoder/extra [2, 3]' in text
  assert 'token_embedder/embedding is [41, 16], the model needs [40, 16]' in text
  assert '3 differences' in text
