"""Model directories: what is saved is what is loaded, and damage is named."""

import dataclasses
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from flax import traverse_util

from specdec_jax.checkpoints import description, directory as directory_lib, storage as storage_lib
from specdec_jax.errors import OutputError, SettingError
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
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
  assert 'depth' in one_line_error(lambda: directory_lib.load_model(model_dir, verify=False))
  (model_dir / 'config.json').write_text(json.dumps(fields))
  directory_lib.save_model(random_model(), model_dir, overwrite=True)
  file = next((model_dir / 'weights').rglob('d/*'))
  file.write_bytes(file.read_bytes()[:20])
  message = one_line_error(lambda: directory_lib.load_model(model_dir))
  assert str(file) in message and 'has 20 bytes of' in message
  file.unlink()
  assert f"'{file}' is missing" in one_line_error(lambda: directory_lib.load_model(model_dir))


@pytest.fixture
def saved(tmp_path):
  directory_lib.save_model(random_model().replace(vocabulary=tiny.vocabulary(tmp_path)), tmp_path / 'm')
  return tmp_path / 'm'


def files_of(directory):
  return sorted(p for p in directory.rglob('*') if p.is_file())


def test_every_random_bit_flip_is_seen(saved):
  rng, files = np.random.default_rng(0), files_of(saved)
  assert {'config.json', 'spiece.model', 'files.json', 'manifest.ocdbt', '_METADATA'} <= {f.name for f in files}
  load_model = directory_lib.load_model
  for _ in range(5):
    for file in files:
      content = bytearray(file.read_bytes())
      bit = int(rng.integers(8 * len(content)))
      content[bit // 8] ^= 1 << bit % 8
      file.write_bytes(content)
      one_line_error(lambda: load_model(saved))
      content[bit // 8] ^= 1 << bit % 8
      file.write_bytes(content)
  load_model(saved)


def test_without_verifying_the_configuration_may_be_changed_and_weights_may_not_be_cut(saved):
  fields = json.loads((saved / 'config.json').read_text())
  (saved / 'config.json').write_text(json.dumps({**fields, 'dropout_rate': 0.25}))
  assert "config.json' has" in one_line_error(lambda: directory_lib.load_model(saved))
  assert directory_lib.load_model(saved, verify=False).config.dropout_rate == 0.25
  largest = max((saved / 'weights').rglob('d/*'), key=lambda f: f.stat().st_size)
  largest.write_bytes(largest.read_bytes()[:-1])
  assert 'bytes of' in one_line_error(lambda: directory_lib.load_model(saved, verify=False))


def as_before_checksums(directory, changes=()):
  """Turns a directory into one with the sizes of its weights alone; `changes` to their list."""
  (directory / 'files.json').unlink()
  weights = directory / 'weights'
  sizes = {f.relative_to(weights).as_posix(): f.stat().st_size for f in files_of(weights)}
  (weights / 'files.json').write_text(json.dumps({**sizes, **dict(changes)}))


def test_directories_from_before_there_were_checksums(saved):
  model = directory_lib.load_model(saved)
  as_before_checksums(saved)
  jax.tree.map(np.testing.assert_array_equal, directory_lib.load_model(saved).params, model.params)
  directory_lib.save_model(model, saved, overwrite=True)
  assert (saved / 'files.json').exists() and not (saved / 'weights' / 'files.json').exists()
  as_before_checksums(saved)
  (saved / 'weights' / 'part_0000' / '_METADATA').write_bytes(b'{}')
  assert "_METADATA' has 2 bytes of" in one_line_error(lambda: directory_lib.load_model(saved))


@pytest.mark.parametrize('name, size', [('../config.json', 5), ('/etc/passwd', 5), ('part_0000/x', None), ('x', '5'),
                                        ('x', 2.5), ('', 1)])
def test_old_lists_that_are_damaged(saved, name, size):
  as_before_checksums(saved, {name: size})
  assert "weights/files.json' is damaged at" in one_line_error(lambda: directory_lib.load_model(saved))
  (saved / 'weights' / 'files.json').write_text('[1]')
  assert 'not a JSON object' in one_line_error(lambda: directory_lib.load_model(saved))


WRONG = ('4', None, [4], 2.5, -1, 0, True, {}, float('nan'), '')


@pytest.mark.parametrize('architecture, name', [
    *(('t5', name) for name in ('vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers',
                                'num_decoder_layers')),
    *(('gpt2', name) for name in ('vocab_size', 'emb_dim', 'num_heads', 'num_layers', 'max_positions'))])
def test_sizes_of_a_configuration_are_told_by_file_field_and_value(tmp_path, architecture, name):
  config = TINY if architecture == 't5' else GPT2Config(vocab_size=40, emb_dim=16, num_heads=2, num_layers=1)
  fields = {'architecture': architecture, 'storage': 'float32', **dataclasses.asdict(config)}
  for value in WRONG:
    (tmp_path / 'config.json').write_text(json.dumps({**fields, name: value}))
    message = one_line_error(lambda: description.read_config(tmp_path))
    assert f"{tmp_path / 'config.json'}': " in message and name in message and repr(value) in message, message


@pytest.mark.parametrize('changes, words', [
    ({'architecture': 'bert'}, 'was not written by this project'), ({'architecture': ['t5']}, 'was not written'),
    ({'architecture': None}, 'was not written'), ({'storage': 'int4'}, "storage is 'int4'; known are float32"),
    ({'storage': ['int8']}, 'storage is'), ({'depth': 3}, "has the field 'depth', which is not known"),
    ({'mlp_activations': ['laplace']}, 'laplace'), ({'mlp_activations': 'gelu'}, 'mlp_activations'),
    ({'mlp_activations': []}, 'mlp_activations'), ({'mlp_activations': None}, 'mlp_activations'),
    ({'dtype': 'float16'}, "float16"), ({'dtype': 5}, 'dtype'), ({'num_pieces': 41}, 'pieces'),
    ({'eos_ids': [3, 4]}, 'eos')])
def test_other_fields_of_a_configuration(tmp_path, changes, words):
  fields = {'architecture': 't5', 'storage': 'float32', **dataclasses.asdict(TINY)}
  (tmp_path / 'config.json').write_text(json.dumps({**fields, **changes}))
  assert words in one_line_error(lambda: description.read_config(tmp_path))


@pytest.mark.parametrize('name', ['vocab_size', 'emb_dim', 'num_heads', 'mlp_dim', 'num_encoder_layers'])
def test_missing_fields_of_a_configuration_are_named(tmp_path, name):
  fields = {'architecture': 't5', 'storage': 'float32', **dataclasses.asdict(TINY)}
  del fields[name]
  (tmp_path / 'config.json').write_text(json.dumps(fields))
  if name == 'vocab_size':  # has a default
    assert description.read_config(tmp_path)[0].vocab_size == 32128
  else:
    assert f"has no field '{name}'" in one_line_error(lambda: description.read_config(tmp_path))


@pytest.mark.parametrize('name', ['num_encoder_layers', 'num_decoder_layers'])
def test_a_thousand_million_layers_are_told_at_once(saved, name):
  fields = json.loads((saved / 'config.json').read_text())
  (saved / 'config.json').write_text(json.dumps({**fields, name: 10 ** 9}))
  assert '1000000000' in one_line_error(lambda: directory_lib.load_model(saved, verify=False))


@pytest.mark.parametrize('name', ['config.json', 'files.json', 'spiece.model', 'weights/part_0000/manifest.ocdbt'])
@pytest.mark.parametrize('kind', ['pipe', 'directory'])
def test_pipes_and_directories_in_place_of_files(saved, name, kind):
  (saved / name).unlink()
  os.mkfifo(saved / name) if kind == 'pipe' else (saved / name).mkdir()
  assert f"{name}' is a {kind}, not a file" in one_line_error(lambda: directory_lib.load_model(saved))


@pytest.mark.parametrize('name', ['checkpoint', '_CHECKPOINT_METADATA', 'd/stray'])
@pytest.mark.parametrize('verify', [True, False])
def test_pipes_among_the_weights(saved, name, verify):
  """Orbax reads what lies there, `checkpoint` above all, whether files.json names it or not."""
  path = saved / 'weights' / 'part_0000' / name
  path.unlink(missing_ok=True)
  os.mkfifo(path)
  assert f"{name}' is a pipe, not a file" in one_line_error(lambda: directory_lib.load_model(saved, verify=verify))


@pytest.mark.parametrize('value', ['yes', 'False', 1, 0, None, [], 2.5])
def test_verify_is_true_or_false(saved, value):
  with pytest.raises(SettingError, match='load_model.verify is .* True or False'):
    directory_lib.load_model(saved, verify=value)


@pytest.mark.parametrize('name', ['[1]', '*', 'a b', '?x', "it's", '%41', 'ü', '{a,b}', '#1'])
def test_names_with_special_characters(tmp_path, name):
  model = random_model()
  directory_lib.save_model(model, tmp_path / name / name)
  directory_lib.save_model(model, tmp_path / name / name, overwrite=True)
  loaded = directory_lib.load_model(tmp_path / name / name)
  jax.tree.map(np.testing.assert_array_equal, loaded.params, model.params)


def test_numbers_that_the_storage_cannot_hold_are_named(tmp_path):
  model = random_model()
  kernel = model.params['decoder']['layers_1']['mlp']['wo']['kernel']
  for value, storage, words in ((np.nan, 'int8', 'not finite, which int8'), (-np.inf, 'int8', 'not finite'),
                                (3.4e38, 'bfloat16', 'too large for bfloat16')):
    kernel[3, 2] = value
    with pytest.raises(CheckpointError, match=f"'decoder/layers_1/mlp/wo/kernel' has numbers .*{words}"):
      directory_lib.save_model(model, tmp_path / 'm', storage)
    assert not list(tmp_path.iterdir())
  kernel[3, 2] = np.nan  # as it is, where it can be
  for storage in ('float32', 'bfloat16'):
    directory_lib.save_model(model, tmp_path / storage, storage)
    loaded = directory_lib.load_model(tmp_path / storage).params['decoder']['layers_1']['mlp']['wo']['kernel']
    assert np.argwhere(np.isnan(loaded)).tolist() == [[3, 2]]


def test_a_directory_whose_remote_writer_was_stopped_is_no_model(saved):
  (saved / '.writing.json').write_text('{}')
  assert 'is not whole: its writer' in one_line_error(lambda: directory_lib.load_model(saved))


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
