"""Hugging Face checkpoints: logits, sharded files, configurations, damage."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from safetensors import numpy as safetensors

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checkpoints.huggingface.t5 import ALIASES, configuration
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.errors import CheckpointError
from specdec_jax.sampling import Sampling

FIXTURES = ('t5_v1_1', 't5_v1_1_tied', 't5_v1_0', 'mt5', 'umt5')
SIZES = {'vocab_size': 96, 'd_model': 32, 'num_heads': 4, 'd_kv': 8, 'd_ff': 48, 'num_layers': 3}


def config_of(fields, tied=True):
  fields = Fields('config.json', {'model_type': 't5', **SIZES, **fields}, ALIASES)
  return configuration(fields, fields, tied)[0]


@pytest.fixture(scope='module')
def overrides():
  """What transformers computes with other settings; see tests/fixtures/README.md."""
  return np.load(pathlib.Path(__file__).parents[2] / 'fixtures' / 'overrides.npz')


def imported_with(source, folder, config, generation=()):
  """The Model of a checkpoint with fields of its two files changed."""
  checkpoint = shutil.copytree(source, folder / 'checkpoint')
  for name, changes in (('config.json', config), ('generation_config.json', generation)):
    fields = {**json.loads((checkpoint / name).read_text()), **dict(changes)}
    (checkpoint / name).write_text(json.dumps(fields))
  import_checkpoint(checkpoint, folder / 'model', 'huggingface')
  return load_model(folder / 'model')


@pytest.mark.parametrize('name, activation, key', [
    ('t5_v1_1', 'silu', 'silu'), ('t5_v1_1', 'gelu', 'gelu'), ('t5_v1_0', 'gelu_new', 'ungated_gelu_new')])
def test_dense_act_fn_goes_before_feed_forward_proj(hf, tmp_path, expected, overrides, name, activation, key):
  model, e = imported_with(hf / name / 'target', tmp_path, {'dense_act_fn': activation}), expected(hf / name)
  found = model.logits(e.encoder_input_tokens[:1], e.decoder_input_tokens[:1])
  np.testing.assert_allclose(found, overrides[f'logits_{key}'], rtol=0, atol=1e-3)
  assert np.abs(found - e.logits[:1]).max() > 0.03  # and not what the file's other field would give


def test_decoded_as_generation_config_says(hf, tmp_path, overrides):
  model = imported_with(hf / 't5_v1_1' / 'target', tmp_path, {'dense_act_fn': 'silu', 'pad_token_id': 3}, {
      'decoder_start_token_id': 7, 'eos_token_id': [1, 33, 28], 'pad_token_id': 3})
  r = autoregressive_decode(model, overrides['padded'], sampling=Sampling(temperature=0.0), max_decode_len=12)
  ends = [2, 12, 2]  # the EOS counted
  assert r.lengths.tolist() == ends
  for row, wanted, end in zip(np.asarray(r.tokens), overrides['greedy'][:, 1:], ends, strict=True):
    assert row[:end].tolist() == wanted[:end].tolist() and not row[end:].any()


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
  config = config_of({'model_type': model_type, **fields})
  assert config.scale_tied_logits is scaled and config.logits_via_embedding


def test_untied_logits_that_are_scaled(checkpoint):
  """As an old v1.0 .bin with its own lm_head: transformers scales before any lm_head."""
  plain = read_all(checkpoint)
  change_config(checkpoint, scale_decoder_outputs=True)
  scaled = read_all(checkpoint)
  name = 'decoder/logits_dense/kernel'
  np.testing.assert_allclose(scaled.pop(name), plain.pop(name) * 16 ** -0.5, rtol=1e-7)
  assert scaled.keys() == plain.keys()


def test_other_fields_of_the_configuration():
  config = config_of(
      {'num_decoder_layers': 5, 'relative_attention_num_buckets': 16, 'relative_attention_max_distance': 64,
       'layer_norm_epsilon': 1e-5, 'decoder_start_token_id': 3, 'eos_token_id': 2})
  assert (config.num_encoder_layers, config.num_decoder_layers) == (3, 5)
  assert (config.num_buckets, config.max_distance, config.layer_norm_epsilon) == (16, 64, 1e-5)
  assert (config.decoder_start_id, config.eos_id) == (3, 2)
  config = config_of({'eos_token_id': None, 'decoder_start_token_id': None})
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


def test_copies_of_the_embedding_that_differ_are_refused(checkpoint, tmp_path):
  tensors = tensors_of(checkpoint)
  for name in ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight'):
    changed = {**tensors, name: tensors['shared.weight'] + np.float32(1e-3)}
    safetensors.save_file(changed, checkpoint / 'model.safetensors')
    with pytest.raises(CheckpointError, match=f"'{name}' differs from 'shared.weight'"):
      import_checkpoint(checkpoint, tmp_path / 'model', 'huggingface')
  assert not (tmp_path / 'model').exists()


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
