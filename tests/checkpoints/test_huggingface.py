"""Hugging Face checkpoints: logits, sharded files, configurations, damage."""

import json
import shutil
import sys

import numpy as np
import pytest
from safetensors import numpy as safetensors

from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.checkpoints.huggingface import config_from_huggingface
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.errors import CheckpointError

FIXTURES = ('t5_v1_1', 't5_v1_1_tied', 't5_v1_0', 'mt5', 'umt5')
SIZES = {'vocab_size': 96, 'd_model': 32, 'num_heads': 4, 'd_kv': 8, 'd_ff': 48, 'num_layers': 3}


def read_all(path):
  reader = open_checkpoint(path, 'huggingface')
  return {name: reader.read(name) for name in reader.leaves}


@pytest.fixture
def checkpoint(hf, tmp_path):
  """A copy of the v1.1 fixture that may be changed."""
  return shutil.copytree(hf / 't5_v1_1' / 'draft', tmp_path / 'checkpoint')


def tensors_of(checkpoint):
  return safetensors.load_file(checkpoint / 'model.safetensors')


def change_config(checkpoint, **changes):
  fields = {**json.loads((checkpoint / 'config.json').read_text()), **changes}
  (checkpoint / 'config.json').write_text(json.dumps(fields))


@pytest.mark.parametrize('name', FIXTURES)
def test_logits(hf, imported, expected, name):
  e = expected(hf / name)
  for model, logits in (('target', e.logits), ('draft', e.draft_logits)):
    found = imported(hf / name / model, 'huggingface').logits(
        e.encoder_input_tokens, e.decoder_input_tokens)
    np.testing.assert_allclose(found, logits, rtol=0, atol=1e-3)


@pytest.mark.parametrize('name, tied, scaled, per_layer, activations', [
    ('t5_v1_1', False, False, False, ('gelu', 'linear')),
    ('t5_v1_1_tied', True, False, False, ('gelu', 'linear')),
    ('t5_v1_0', True, True, False, ('relu',)),
    ('mt5', False, False, False, ('gelu', 'linear')),
    ('umt5', False, False, True, ('gelu', 'linear'))])
def test_configuration(hf, name, tied, scaled, per_layer, activations):
  config = open_checkpoint(hf / name / 'target', 'huggingface').config
  assert (config.logits_via_embedding, config.scale_tied_logits) == (tied, scaled)
  assert (config.relative_bias_per_layer, config.mlp_activations) == (per_layer, activations)


@pytest.mark.parametrize('model_type, fields, scaled', [
    ('t5', {}, True), ('t5', {'tie_word_embeddings': True}, True),
    ('t5', {'tie_word_embeddings': False}, False), ('t5', {'tie_word_embeddings': None}, True),
    ('t5', {'tie_word_embeddings': True, 'scale_decoder_outputs': False}, False),
    ('t5', {'tie_word_embeddings': False, 'scale_decoder_outputs': True}, True),
    ('umt5', {'tie_word_embeddings': True}, True), ('mt5', {}, False),
    ('mt5', {'tie_word_embeddings': True, 'scale_decoder_outputs': True}, False)])
def test_scaling_of_tied_logits(model_type, fields, scaled):
  config = config_from_huggingface({'model_type': model_type, **SIZES, **fields}, tied=True)
  assert config.scale_tied_logits is scaled and config.logits_via_embedding


def test_untied_logits_that_are_scaled(checkpoint):
  """As an old v1.0 .bin with its own lm_head: transformers scales before any lm_head."""
  plain = read_all(checkpoint)
  change_config(checkpoint, scale_decoder_outputs=True)
  scaled = read_all(checkpoint)
  name = 'decoder/logits_dense/kernel'
  np.testing.assert_allclose(scaled.pop(name), plain.pop(name) * 16 ** -0.5, rtol=1e-7)
  assert scaled.keys() == plain.keys()


@pytest.mark.parametrize('feed_forward_proj, activations', [
    ('relu', ('relu',)), ('gated-gelu', ('gelu', 'linear')), ('gated-silu', ('silu', 'linear')),
    ('gelu_new', ('gelu',)), (None, ('relu',))])
def test_activations(feed_forward_proj, activations):
  fields = {'feed_forward_proj': feed_forward_proj} if feed_forward_proj else {}
  config = config_from_huggingface({'model_type': 't5', **SIZES, **fields}, tied=True)
  assert config.mlp_activations == activations


def test_other_fields_of_the_configuration():
  config = config_from_huggingface(
      {'model_type': 't5', **SIZES, 'num_decoder_layers': 5, 'relative_attention_num_buckets': 16,
       'relative_attention_max_distance': 64, 'layer_norm_epsilon': 1e-5,
       'decoder_start_token_id': 3, 'eos_token_id': 2}, tied=True)
  assert (config.num_encoder_layers, config.num_decoder_layers) == (3, 5)
  assert (config.num_buckets, config.max_distance, config.layer_norm_epsilon) == (16, 64, 1e-5)
  assert (config.decoder_start_id, config.eos_id) == (3, 2)
  config = config_from_huggingface({'model_type': 't5', **SIZES, 'eos_token_id': None,
                                    'decoder_start_token_id': None}, tied=True)
  assert (config.decoder_start_id, config.eos_id) == (0, 1)


def test_sharded_files(checkpoint):
  whole = read_all(checkpoint)
  tensors = tensors_of(checkpoint)
  (checkpoint / 'model.safetensors').unlink()
  names, weight_map = sorted(tensors), {}
  for i in range(3):
    shard = f'model-{i + 1:05d}-of-00003.safetensors'
    safetensors.save_file({n: tensors[n] for n in names[i::3]}, checkpoint / shard)
    weight_map.update(dict.fromkeys(names[i::3], shard))
  index = checkpoint / 'model.safetensors.index.json'
  index.write_text(json.dumps({'metadata': {}, 'weight_map': weight_map}))
  found = read_all(checkpoint)
  assert found.keys() == whole.keys()
  for name, value in whole.items():
    np.testing.assert_array_equal(found[name], value)
  (checkpoint / shard).unlink()
  assert shard in error_of(checkpoint) and 'missing' in error_of(checkpoint)
  index.write_text(index.read_text()[:100])
  assert 'truncated' in error_of(checkpoint)


def test_superfluous_copies_of_the_embedding(checkpoint):
  whole, tensors = read_all(checkpoint), tensors_of(checkpoint)
  for name in ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight'):
    tensors[name] = tensors['shared.weight']
  unused = 'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight'
  tensors[unused] = np.zeros((32, 2))
  safetensors.save_file(tensors, checkpoint / 'model.safetensors')
  assert read_all(checkpoint).keys() == whole.keys()


def test_half_precision_files(checkpoint, tmp_path):
  tensors = {n: t.astype(np.float16) for n, t in tensors_of(checkpoint).items()}
  safetensors.save_file(tensors, checkpoint / 'model.safetensors')
  import_checkpoint(checkpoint, tmp_path / 'model', 'huggingface')
  assert json.loads((tmp_path / 'model' / 'config.json').read_text())['storage'] == 'float32'
  found = read_all(checkpoint)['token_embedder/embedding']
  np.testing.assert_array_equal(found, tensors['shared.weight'])


def error_of(path):
  with pytest.raises(CheckpointError) as caught:
    read_all(path)
  assert '\n' not in str(caught.value)
  return str(caught.value)


def test_damaged_files(checkpoint):
  file = checkpoint / 'model.safetensors'
  content = file.read_bytes()
  for length in (len(content) - 1, 2000, 100, 3, 0):
    file.write_bytes(content[:length])
    assert 'truncated' in error_of(checkpoint)
  file.write_bytes(content)
  assert read_all(checkpoint)
  (checkpoint / 'config.json').write_text('{"d_model"')
  assert 'truncated' in error_of(checkpoint)
  (checkpoint / 'config.json').unlink()
  assert 'config.json' in error_of(checkpoint)


def test_configurations_that_cannot_be_used(checkpoint):
  fields = json.loads((checkpoint / 'config.json').read_text())
  change_config(checkpoint, model_type='bert')
  assert "'bert'" in error_of(checkpoint)
  change_config(checkpoint, model_type='t5', feed_forward_proj='gelu')
  assert "'gelu'" in error_of(checkpoint)
  del fields['d_kv']
  (checkpoint / 'config.json').write_text(json.dumps(fields))
  assert 'd_kv' in error_of(checkpoint)


def test_differences_are_all_listed(checkpoint, tmp_path):
  tensors = tensors_of(checkpoint)
  del tensors['encoder.final_layer_norm.weight']
  tensors['encoder.block.0.layer.1.DenseReluDense.wi.weight'] = np.zeros((24, 16), np.float32)
  tensors['pooler.dense.weight'] = np.zeros((2, 2), np.float32)
  safetensors.save_file(tensors, checkpoint / 'model.safetensors')
  change_config(checkpoint, d_ff=32)
  with pytest.raises(CheckpointError) as caught:
    import_checkpoint(checkpoint, tmp_path / 'model', 'huggingface')
  text = str(caught.value)
  assert 'missing: encoder/encoder_norm/scale [16]' in text
  assert 'superfluous: encoder/layers_0/mlp/wi/kernel [16, 24]' in text
  assert 'superfluous: pooler.dense.weight [2, 2]' in text
  assert 'decoder/layers_0/mlp/wo/kernel is [24, 16], the model needs [32, 16]' in text
  assert not (tmp_path / 'model').exists()


def test_bin_files_without_torch(checkpoint, monkeypatch):
  (checkpoint / 'model.safetensors').rename(checkpoint / 'pytorch_model.bin')
  monkeypatch.setitem(sys.modules, 'torch', None)
  assert 'install torch' in error_of(checkpoint)
