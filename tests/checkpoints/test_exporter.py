"""What is exported is read back as it was by the importer; real T5X and transformers: docs/checkpoints.md."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

import jax
import numpy as np
import pytest
import tiny
import tiny_lm
from flax import serialization, traverse_util

from specdec_jax.checkpoints import exporter
from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.checkpoints.exporter import export_checkpoint
from specdec_jax.checkpoints.formats import FORMATS, T5X_FORMATS, guess_format, open_checkpoint
from specdec_jax.checkpoints.huggingface import writer
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.errors import OutputError, SettingError

ROOT = pathlib.Path(__file__).parents[2]
VARIANTS = {
    'v1_1': {'num_buckets': 32, 'max_distance': 128},
    'v1_0': {'mlp_activations': ('relu',), 'logits_via_embedding': True},
    'unscaled': {'logits_via_embedding': True, 'scale_tied_logits': False},
    'other': {'num_decoder_layers': 3, 'num_encoder_layers': 2, 'mlp_activations': ('gelu_exact', 'linear'),
              'max_distance': 20, 'layer_norm_epsilon': 1e-5, 'dropout_rate': 0.2, 'decoder_start_id': 3,
              'eos_ids': (1, 5), 'pad_id': 2},
    'umt5': {'relative_bias_per_layer': True, 'num_decoder_layers': 2, 'scale_tied_logits': False},
    'long': {'encoder_attention': 'transient_global', 'local_radius': 3, 'global_block_size': 4, 'dropout_rate': 0.1}}
STEP = 12


def checkpoint(output, checkpoint_format):
  return output / f'checkpoint_{STEP}' if checkpoint_format in T5X_FORMATS else output


def same_weights(found, wanted):
  a, b = (traverse_util.flatten_dict(m.params, sep='/') for m in (found, wanted))
  assert a.keys() == b.keys()
  for name, value in b.items():
    assert a[name].dtype == value.dtype
    np.testing.assert_array_equal(a[name], value, err_msg=name)


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
  """saved(name, storage) -> the directory of a variant with a vocabulary of sentinels behind the pieces."""
  folder = tmp_path_factory.mktemp('saved')
  vocabulary = tiny.vocabulary(folder)
  def save(name, storage='float32'):
    path = folder / f'{name}-{storage}'
    if not path.exists():
      model = tiny.random_t5(3, num_pieces=vocabulary.size + 2, vocab_size=32, **VARIANTS[name])
      save_model(model.replace(vocabulary=vocabulary), path, storage=storage)
    return path
  return save


@pytest.mark.parametrize('name', VARIANTS)
@pytest.mark.parametrize('checkpoint_format', FORMATS)
def test_a_t5_comes_back_as_it_went(saved, tmp_path, name, checkpoint_format):
  source, output = saved(name), tmp_path / 'out'
  export_checkpoint(source, output, checkpoint_format, step=STEP)
  assert guess_format(checkpoint(output, checkpoint_format)) == checkpoint_format
  wanted = load_model(source)
  of_t5x = checkpoint_format in T5X_FORMATS
  fields = dataclasses.asdict(wanted.config)
  gin_file = tmp_path / 'all.gin'
  gin_file.write_text('\n'.join(f'T5Config.{key} = {value!r}' for key, value in fields.items()))
  import_checkpoint(checkpoint(output, checkpoint_format), tmp_path / 'model', checkpoint_format,
                    note=lambda text: None, gin_file=gin_file if of_t5x else None)
  found = load_model(tmp_path / 'model')
  same_weights(found, wanted)
  assert found.vocabulary == wanted.vocabulary
  ignored = {} if wanted.config.logits_via_embedding else {'scale_tied_logits': True}
  assert dataclasses.replace(found.config, **ignored) == dataclasses.replace(wanted.config, **ignored)


@pytest.mark.parametrize('checkpoint_format', FORMATS)
@pytest.mark.parametrize('storage, dtype, stored', [
    ('bfloat16', None, 'bfloat16'), ('int8', None, 'float32'), ('float32', 'bfloat16', 'bfloat16')])
def test_dtypes(saved, tmp_path, checkpoint_format, storage, dtype, stored):
  source = saved('v1_1', storage)
  export_checkpoint(source, tmp_path / 'out', checkpoint_format, dtype=dtype, step=STEP)
  reader = open_checkpoint(checkpoint(tmp_path / 'out', checkpoint_format), checkpoint_format)
  wanted = traverse_util.flatten_dict(load_model(source, dtype=stored).params, sep='/')
  assert reader.leaves.keys() == wanted.keys()
  for name, leaf in reader.leaves.items():
    assert leaf.dtype == wanted[name].dtype.name
    np.testing.assert_array_equal(reader.read(name), wanted[name], err_msg=name)


def test_a_gpt2_goes_to_transformers_alone(tmp_path):
  model = tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path))
  save_model(model, tmp_path / 'model')
  export_checkpoint(tmp_path / 'model', tmp_path / 'out', 'huggingface')
  import_checkpoint(tmp_path / 'out', tmp_path / 'again', 'huggingface', note=lambda text: None)
  found = load_model(tmp_path / 'again')
  same_weights(found, model)
  assert found.config == model.config
  for checkpoint_format in T5X_FORMATS:
    with pytest.raises(SettingError, match='T5X has no GPT-2'):
      export_checkpoint(tmp_path / 'model', tmp_path / 'none', checkpoint_format)
  assert {p.name for p in tmp_path.iterdir() if p.is_dir()} == {'model', 'out', 'again'}  # nothing half written


@pytest.mark.parametrize('name', ['gpt2', 't5_v1_0', 't5_v1_1', 't5_v1_1_tied', 'umt5'])
def test_names_are_those_of_transformers_own_files(hf, tmp_path, name):
  """The files that transformers wrote, imported and exported, hold the same arrays."""
  source = hf / name / 'target'
  import_checkpoint(source, tmp_path / 'model', 'huggingface', note=lambda text: None)
  export_checkpoint(tmp_path / 'model', tmp_path / 'out', 'huggingface')
  from safetensors.numpy import load_file
  theirs, ours = (load_file(folder / 'model.safetensors') for folder in (source, tmp_path / 'out'))
  assert ours.keys() == theirs.keys()
  for parameter, value in theirs.items():
    np.testing.assert_array_equal(ours[parameter], value, err_msg=parameter)
  fields, said = (json.loads((folder / 'config.json').read_text()) for folder in (source, tmp_path / 'out'))
  skipped = ('dtype', 'torch_dtype', 'n_inner', 'bos_token_id', 'pad_token_id', 'tie_word_embeddings',
             'scale_decoder_outputs', 'is_encoder_decoder')
  assert {k: v for k, v in said.items() if k not in skipped} == {k: fields[k] for k in said if k not in skipped}


def test_names_are_those_of_t5xs_own_files(t5x, tmp_path):
  """The index that T5X wrote, imported and exported, names the same arrays in the same places."""
  source = t5x / 'v1_1' / 't5x_native_float32' / 'checkpoint_0'
  import_checkpoint(source, tmp_path / 'model', 't5x', note=lambda text: None)
  export_checkpoint(tmp_path / 'model', tmp_path / 'out', 't5x', note=lambda text: None)
  theirs, ours = (serialization.msgpack_restore((folder / 'checkpoint').read_bytes())
                  for folder in (source, tmp_path / 'out' / 'checkpoint_0'))
  assert ours['optimizer']['target'] == theirs['optimizer']['target'] and ours['version'] == theirs['version']
  step = ours['optimizer']['state']['step']
  assert step == 0 and step.dtype == theirs['optimizer']['state']['step'].dtype


def test_orbax_itself_restores_it(saved, tmp_path):
  import orbax.checkpoint as ocp
  export_checkpoint(saved('v1_0'), tmp_path / 'out', 't5x_orbax', step=STEP)
  found = ocp.PyTreeCheckpointer().restore(os.fspath(tmp_path / 'out' / f'checkpoint_{STEP}' / 'state'))
  assert found['state'] == {'step': STEP}
  jax.tree.map(np.testing.assert_array_equal, found['target'], load_model(saved('v1_0')).params)


def test_large_models_are_sharded(saved, tmp_path, monkeypatch):
  write = lambda directory, model: writer.write(directory, model, 3000)
  monkeypatch.setattr(exporter, '_WRITE', {'huggingface': write})
  export_checkpoint(saved('v1_1'), tmp_path / 'out', 'huggingface')
  files = sorted(p.name for p in (tmp_path / 'out').glob('*.safetensors'))
  assert len(files) > 2 and files[0] == f'model-00001-of-{len(files):05d}.safetensors'
  index = json.loads((tmp_path / 'out' / 'model.safetensors.index.json').read_text())
  assert set(index['weight_map'].values()) == set(files)
  import_checkpoint(tmp_path / 'out', tmp_path / 'model', 'huggingface', note=lambda text: None)
  same_weights(load_model(tmp_path / 'model'), load_model(saved('v1_1')))


def test_a_chunk_of_zeros_is_written_too(tmp_path):
  """The reader takes a chunk that is not there for damage."""
  model = tiny.random_t5(0)
  model.params['encoder']['relpos_bias']['rel_embedding'] *= 0
  save_model(model, tmp_path / 'model')
  for checkpoint_format in T5X_FORMATS:
    export_checkpoint(tmp_path / 'model', tmp_path / checkpoint_format, checkpoint_format, note=lambda text: None)
    same_weights(load_model(tmp_path / checkpoint_format / 'checkpoint_0'), model)


def test_the_gin_file_names_the_model(saved, tmp_path):
  export_checkpoint(saved('v1_1'), tmp_path / 'out', 't5x', step=STEP, note=lambda text: None)
  text = (tmp_path / 'out' / 'model.gin').read_text()
  assert f"'{tmp_path / 'out' / 'spiece.model'}'" in text and f"checkpoint_{STEP}'" in text
  assert "  emb_dim = 16\n" in text and '  extra_ids = 2\n' in text
  assert (tmp_path / 'out' / 'spiece.model').read_bytes() == load_model(saved('v1_1')).vocabulary.model_bytes


def test_what_t5xs_network_lacks_is_told(saved, tmp_path):
  told = []
  export_checkpoint(saved('other'), tmp_path / 'out', 't5x', note=told.append)
  assert 'decoder_start_id = 3 (T5X: 0)' in told[0] and not (tmp_path / 'out' / 'model.gin').exists()


def test_whole_or_not_at_all(saved, tmp_path, monkeypatch):
  (tmp_path / 'there').mkdir()
  (tmp_path / 'there' / 'notes.txt').write_text('mine')
  with pytest.raises(OutputError, match='exists already'):
    export_checkpoint(saved('v1_1'), tmp_path / 'there', 't5x')
  def fails(directory, model):
    (directory / 'begun').write_text('')
    raise OSError('disk full')
  monkeypatch.setattr(exporter, '_WRITE', {'t5x': fails})
  with pytest.raises(OSError, match='disk full'):
    export_checkpoint(saved('v1_1'), tmp_path / 'new', 't5x')
  assert [p.name for p in tmp_path.iterdir()] == ['there']


def test_wrong_settings_are_named(saved, tmp_path):
  for name, value in (('dtype', 'int8'), ('step', -1), ('checkpoint_format', 'tf')):
    with pytest.raises(SettingError, match=name):
      export_checkpoint(saved('v1_1'), tmp_path / 'out', **{'checkpoint_format': 't5x', name: value})


def test_the_command(saved, tmp_path):
  run = lambda *flags: subprocess.run([sys.executable, ROOT / 'scripts' / 'export_checkpoint.py', *flags],
                                      capture_output=True, text=True)
  done = run('--format=t5x', f'--input={saved("v1_1")}', f'--output={tmp_path / "out"}', '--step=5')
  assert done.returncode == 0, done.stderr
  assert done.stdout == f'{tmp_path / "out"}\n' and (tmp_path / 'out' / 'checkpoint_5' / 'checkpoint').exists()
  missing = run('--format=t5x')
  assert missing.returncode == 1 and missing.stderr.count('\n') == 1
  assert '--input is not given; an export' in missing.stderr
