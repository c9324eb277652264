"""T5X checkpoints: its own format and Orbax's layouts, scanned trees, damage."""

import shutil

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
import tiny
from flax import serialization, traverse_util

from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.checkpoints.formats import guess_format, open_checkpoint
from specdec_jax.errors import CheckpointError, SettingError

FLOAT32, BFLOAT16 = 't5x_native_float32/checkpoint_0', 't5x_native_bfloat16/checkpoint_0'
ORBAX = 'checkpoint_0'


def read_all(path, checkpoint_format):
  reader = open_checkpoint(path, checkpoint_format)
  values = {name: reader.read(name) for name in reader.leaves}
  for name, leaf in reader.leaves.items():
    assert (values[name].shape, values[name].dtype.name) == (leaf.shape, leaf.dtype)
  return values


def assert_same(found, wanted):
  assert found.keys() == wanted.keys()
  for name, value in wanted.items():
    np.testing.assert_array_equal(found[name], value, err_msg=name)


def read_index(checkpoint):
  return serialization.msgpack_restore((checkpoint / 'checkpoint').read_bytes())


def write_index(checkpoint, index):
  (checkpoint / 'checkpoint').write_bytes(serialization.msgpack_serialize(index))


@pytest.fixture
def native(t5x, tmp_path):
  return shutil.copytree(t5x / 'v1_1' / FLOAT32, tmp_path / 'native')


@pytest.fixture
def orbax(t5x, tmp_path):
  return shutil.copytree(t5x / 'v1_1' / ORBAX, tmp_path / 'orbax')


@pytest.mark.parametrize('version', ['v1_0', 'v1_1'])
@pytest.mark.parametrize('path, checkpoint_format', [(FLOAT32, 't5x'), (ORBAX, 't5x_orbax')])
def test_logits(t5x, imported, expected, version, path, checkpoint_format):
  model = imported(t5x / version / path, checkpoint_format)
  e = expected(t5x / version)
  logits = model.logits(e.encoder_input_tokens, e.decoder_input_tokens)
  np.testing.assert_allclose(logits, e.logits, rtol=0, atol=1e-4)


def test_bfloat16_is_the_float32_checkpoint_rounded(t5x, imported):
  model = imported(t5x / 'v1_1' / BFLOAT16, 't5x')
  assert model.config.dtype == 'float32'
  loaded = traverse_util.flatten_dict(model.params, sep='/')
  exact = read_all(t5x / 'v1_1' / FLOAT32, 't5x')
  assert_same(loaded, {name: value.astype(ml_dtypes.bfloat16).astype(np.float32)
                       for name, value in exact.items()})


def test_formats_agree(t5x):
  assert_same(read_all(t5x / 'v1_1' / ORBAX, 't5x_orbax'), read_all(t5x / 'v1_1' / FLOAT32, 't5x'))


def test_older_orbax_layout_without_state_item(t5x, orbax):
  assert_same(read_all(orbax / 'state', 't5x_orbax'), read_all(t5x / 'v1_1' / FLOAT32, 't5x'))


@pytest.mark.parametrize('ocdbt', [True, False])
@pytest.mark.parametrize('metadata', [True, False])
def test_older_orbax_arrays_and_index(t5x, tmp_path, ocdbt, metadata):
  """A folder per array; names from the msgpack index that came before _METADATA."""
  weights = read_all(t5x / 'v1_1' / FLOAT32, 't5x')
  tree = {'target': traverse_util.unflatten_dict(weights, sep='/'),
          'state': {'step': np.zeros((), np.int32)}}
  path = tmp_path / 'checkpoint_7'
  ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt)).save(
      path, args=ocp.args.PyTreeSave(tree))
  if not metadata:
    (path / '_METADATA').unlink()
    flat = traverse_util.flatten_dict(tree)
    write_index(path, traverse_util.unflatten_dict(
        {name: 'PLACEHOLDER://' + '.'.join(name) for name in flat}))
  assert_same(read_all(path, 't5x_orbax'), weights)


def test_small_leaves_inside_the_index(t5x, native):
  index = read_index(native)
  norm = index['optimizer']['target']['decoder']['decoder_norm']
  weights = read_all(t5x / 'v1_1' / FLOAT32, 't5x')
  norm['scale'] = weights['decoder/decoder_norm/scale']
  write_index(native, index)
  shutil.rmtree(native / 'target.decoder.decoder_norm.scale')
  assert_same(read_all(native, 't5x'), weights)


def test_specs_of_other_times_and_places(t5x, native):
  """gfile and gcs drivers, and the path beside `kvstore` as TensorStore had it before 0.1.14."""
  index = read_index(native)
  target = index['optimizer']['target']
  spec = target['decoder']['decoder_norm']['scale']
  spec['path'] = spec['kvstore'].pop('path')
  spec['kvstore']['driver'] = 'gfile'
  target['token_embedder']['embedding']['kvstore'].update(driver='gcs', bucket='elsewhere')
  write_index(native, index)
  assert_same(read_all(native, 't5x'), read_all(t5x / 'v1_1' / FLOAT32, 't5x'))


def test_the_optimizer_state_is_not_needed(t5x, native):
  for folder in native.glob('state.param_states.*'):
    shutil.rmtree(folder)
  assert_same(read_all(native, 't5x'), read_all(t5x / 'v1_1' / FLOAT32, 't5x'))


def scanned(weights):
  """The tree that scalable_t5 makes of these weights: layers on axis 1, a bias in every layer."""
  out, stacks = {}, {}
  for path, value in weights.items():
    stack, _, rest = path.partition('/')
    layer, _, leaf = rest.partition('/')
    if layer.startswith('layers_'):
      stacks.setdefault(f'{stack}/{stack}/{leaf}', {})[int(layer.removeprefix('layers_'))] = value
    elif layer != 'relpos_bias':
      out[path] = value
  for stack in ('encoder', 'decoder'):
    depth = len(stacks[f'{stack}/{stack}/mlp/wo/kernel'])
    bias = weights[f'{stack}/relpos_bias/rel_embedding']
    stacks[f'{stack}/{stack}/relpos_bias/rel_embedding'] = dict.fromkeys(range(depth), bias)
  for path, layers in stacks.items():
    out[path] = np.stack([layers[i] for i in range(len(layers))], axis=1)
  return out


def write_native(folder, weights):
  specs = {}
  for path, value in weights.items():
    name = 'target.' + path.replace('/', '.') + '/'
    specs[path] = {'driver': 'zarr', 'dtype': value.dtype.name,
                   'kvstore': {'driver': 'file', 'path': name},
                   'metadata': {'shape': list(value.shape), 'chunks': list(value.shape)}}
    on_disk = {**specs[path], 'kvstore': {'driver': 'file', 'path': f'{folder}/{name}'}}
    ts.open(on_disk, create=True).result().write(value).result()
  write_index(folder, {'version': 3, 'optimizer': {
      'target': traverse_util.unflatten_dict(specs, sep='/')}})
  return folder


def test_scanned_layers_are_unstacked(t5x, imported, expected, tmp_path):
  folder = tmp_path / 'scanned'
  folder.mkdir()
  tree = scanned(read_all(t5x / 'v1_1' / FLOAT32, 't5x'))
  assert tree['decoder/decoder/pre_mlp_layer_norm/scale'].shape == (32, 3)
  assert tree['decoder/decoder/relpos_bias/rel_embedding'].shape == (4, 3, 32)
  model = imported(write_native(folder, tree), 't5x')
  assert model.config.relative_bias_per_layer
  assert (model.config.num_encoder_layers, model.config.num_decoder_layers) == (2, 3)
  e = expected(t5x / 'v1_1')
  logits = model.logits(e.encoder_input_tokens, e.decoder_input_tokens)
  np.testing.assert_allclose(logits, e.logits, rtol=0, atol=1e-4)


def error_of(path, checkpoint_format):
  with pytest.raises(CheckpointError) as caught:
    read_all(path, checkpoint_format)
  assert '\n' not in str(caught.value)
  return str(caught.value)


def cut(file):
  content = file.read_bytes()
  file.write_bytes(content[:len(content) // 2])


def test_damaged_native(native):
  cut(native / 'target.encoder.encoder_norm.scale' / '0')
  message = error_of(native, 't5x')
  assert 'encoder/encoder_norm/scale' in message and 'truncated' in message
  (native / 'target.encoder.encoder_norm.scale' / '0').unlink()
  assert 'encoder/encoder_norm/scale' in error_of(native, 't5x')
  shutil.rmtree(native / 'target.encoder.encoder_norm.scale')
  message = error_of(native, 't5x')
  assert 'encoder/encoder_norm/scale' in message and 'cannot be opened' in message
  cut(native / 'checkpoint')
  assert 'truncated' in error_of(native, 't5x')


def test_damaged_orbax(orbax):
  data = max((orbax / 'state' / 'ocdbt.process_0' / 'd').iterdir(), key=lambda f: f.stat().st_size)
  cut(data)
  assert 'damaged' in error_of(orbax, 't5x_orbax')
  (orbax / 'state' / 'manifest.ocdbt').write_bytes(b'')
  assert 'damaged' in error_of(orbax, 't5x_orbax')
  cut(orbax / 'state' / '_METADATA')
  assert 'truncated' in error_of(orbax, 't5x_orbax')


def test_an_absent_chunk_is_not_read_as_zeros(native):
  (native / 'target.token_embedder.embedding' / '0.0').unlink()
  assert 'token_embedder/embedding' in error_of(native, 't5x')


def test_other_formats_are_named(t5x, hf, native, orbax, tmp_path):
  assert '--format=t5x_orbax' in error_of(orbax, 't5x')
  assert error_of(native, 't5x_orbax').endswith('--format=t5x.')
  assert '--format=huggingface' in error_of(hf / 'umt5' / 'target', 't5x')
  assert str(t5x / 'v1_1' / 'checkpoint_0') in error_of(t5x / 'v1_1', 't5x')
  assert str(native) in error_of(native / 'target.encoder.encoder_norm.scale', 't5x')
  assert 'does not exist' in error_of(tmp_path / 'nothing', 't5x')
  assert 'is a file' in error_of(native / 'checkpoint', 't5x')
  (tmp_path / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-1000"')
  assert 'TensorFlow' in error_of(tmp_path, 't5x')


@pytest.mark.parametrize('path', [FLOAT32, ORBAX])
def test_a_checkpoint_is_loaded_without_an_import(t5x, imported, capsys, path):
  model = load_model(t5x / 'v1_1' / path)
  assert 'assumed: mlp_activations' in capsys.readouterr().err
  wanted = imported(t5x / 'v1_1' / path, guess_format(t5x / 'v1_1' / path))
  assert model.config == wanted.config and model.vocabulary is None
  assert_same(*(traverse_util.flatten_dict(m.params, sep='/') for m in (model, wanted)))


def test_arguments_say_what_a_checkpoint_does_not(t5x, tmp_path, capsys):
  gin_file = tmp_path / 'model.gin'
  gin_file.write_text("T5Config:\n  mlp_activations = ('silu', 'linear')\n  max_distance = 64\n")
  model = load_model(t5x / 'v1_1' / BFLOAT16, dtype='bfloat16', gin_file=gin_file,
                     vocabulary=tiny.vocabulary(tmp_path).path)
  assert (model.config.mlp_activations, model.config.max_distance) == (('silu', 'linear'), 64)
  assert model.config.dtype == model.params['token_embedder']['embedding'].dtype.name == 'bfloat16'
  assert model.params['decoder']['decoder_norm']['scale'].dtype == np.float32
  assert model.encode(['ein Haus'])[0, -1] == 1 and model.num_tokens == model.vocabulary.size


def test_what_a_model_directory_says_itself_is_no_argument(tmp_path):
  save_model(tiny.random_t5(0), tmp_path / 'model')
  with pytest.raises(SettingError, match='gin_file is for T5X checkpoints'):
    load_model(tmp_path / 'model', gin_file=tmp_path / 'any.gin')


def test_weights_that_are_not_finite_are_not_loaded(native):
  ts.open({'driver': 'zarr', 'kvstore': {'driver': 'file', 'path': f'{native}/target.decoder.decoder_norm.scale/'}},
          ).result()[0].write(np.nan).result()
  with pytest.raises(CheckpointError, match=r'decoder_norm/scale.* has 1 of 32 numbers that are NaN'):
    load_model(native)
