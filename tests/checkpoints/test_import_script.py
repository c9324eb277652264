"""scripts/import_checkpoint.py as a user runs it, and the importer's choices."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.errors import CheckpointError

ROOT = pathlib.Path(__file__).parents[2]
NATIVE = 'v1_1/t5x_native_float32/checkpoint_0'


def run(*flags):
  return subprocess.run([sys.executable, ROOT / 'scripts' / 'import_checkpoint.py', *flags],
                        cwd=ROOT, capture_output=True, text=True)


def test_import_then_refuse_to_overwrite(t5x, tmp_path):
  flags = ('--format=t5x', f'--input={t5x / NATIVE}', f'--output={tmp_path / "model"}')
  first = run(*flags)
  assert first.returncode == 0, first.stderr
  assert 'emb_dim=32' in first.stdout
  before = (tmp_path / 'model' / 'config.json').read_text()
  second = run(*flags, '--dtype=bfloat16')
  assert second.returncode == 1 and 'exists already' in second.stderr
  assert (tmp_path / 'model' / 'config.json').read_text() == before
  assert [p.name for p in tmp_path.iterdir()] == ['model']


def test_mistakes_are_one_line_without_a_traceback(t5x, tmp_path):
  output = f'--output={tmp_path / "model"}'
  wrong_format = run('--format=huggingface', f'--input={t5x / NATIVE}', output)
  wrong_size = run('--format=t5x', f'--input={t5x / NATIVE}', output,
                   '--gin_file=gin/models/t5_1_1_small.gin')
  assert wrong_format.returncode == wrong_size.returncode == 1
  assert wrong_format.stderr.count('\n') == 1 and '--format=t5x.' in wrong_format.stderr
  assert 'encoder/encoder_norm/scale is [32], the model needs [512]' in wrong_size.stderr
  assert 'missing: decoder/layers_7/mlp/wo/kernel [1024, 512]' in wrong_size.stderr
  for result in (wrong_format, wrong_size, run('--format=t5x', output), run('--format=tf')):
    assert result.returncode in (1, 2) and 'Traceback' not in result.stderr + result.stdout
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('storage, stored, dtype', [
    (None, 'bfloat16', 'float32'), ('float32', 'float32', 'float32'),
    ('bfloat16', 'bfloat16', 'bfloat16'), ('int8', 'int8', 'float32')])
def test_storage_and_dtype(t5x, tmp_path, storage, stored, dtype):
  source = t5x / 'v1_1' / 't5x_native_bfloat16' / 'checkpoint_0'
  import_checkpoint(source, tmp_path / 'model', 't5x', storage=storage)
  assert json.loads((tmp_path / 'model' / 'config.json').read_text())['storage'] == stored
  model = load_model(tmp_path / 'model')
  assert model.config.dtype == model.params['token_embedder']['embedding'].dtype.name == dtype


def test_a_gin_file_completes_what_shapes_do_not_tell(t5x, tmp_path):
  gin_file = tmp_path / 'model.gin'
  gin_file.write_text("T5Config:\n  mlp_activations = ('silu', 'linear')\n  max_distance = 64\n")
  config = import_checkpoint(t5x / NATIVE, tmp_path / 'model', 't5x', gin_file=gin_file)
  assert (config.mlp_activations, config.max_distance) == (('silu', 'linear'), 64)
  assert load_model(tmp_path / 'model').config == config
  gin_file.write_text("T5Config.mlp_activations = ('relu',)")
  with pytest.raises(CheckpointError, match='missing: decoder/layers_0/mlp/wi/kernel'):
    import_checkpoint(t5x / NATIVE, tmp_path / 'other', 't5x', gin_file=gin_file)


@pytest.fixture
def vocabulary(tmp_path):
  """A SentencePiece file of 60 pieces with T5's ids."""
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(['the quick brown fox jumps over the lazy dog'] * 5),
      model_prefix=str(tmp_path / 'spiece'), vocab_size=60, model_type='unigram', pad_id=0,
      eos_id=1, unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2)
  return tmp_path / 'spiece.model'


def test_vocabulary_and_sentinels(t5x, tmp_path, vocabulary):
  config = import_checkpoint(t5x / NATIVE, tmp_path / 'a', 't5x', vocabulary=vocabulary)
  model = load_model(tmp_path / 'a')
  pieces = model.vocabulary.size
  assert model.vocabulary.model_bytes == vocabulary.read_bytes()
  assert config.num_pieces == model.config.num_pieces == pieces and config.eos_id == 1
  import_checkpoint(t5x / NATIVE, tmp_path / 'b', 't5x', vocabulary=vocabulary, extra_ids=7)
  assert load_model(tmp_path / 'b').config.num_pieces == pieces + 7
  with pytest.raises(CheckpointError, match='not the vocabulary of this model'):
    import_checkpoint(t5x / NATIVE, tmp_path / 'c', 't5x', vocabulary=vocabulary, extra_ids=96)
  with pytest.raises(CheckpointError, match='No vocabulary file'):
    import_checkpoint(t5x / NATIVE, tmp_path / 'c', 't5x', vocabulary=tmp_path / 'none.model')
  with pytest.raises(CheckpointError, match='not a SentencePiece model'):
    import_checkpoint(t5x / NATIVE, tmp_path / 'c', 't5x', vocabulary=tmp_path / 'spiece.vocab')


def test_the_checkpoints_own_vocabulary_is_found(hf, tmp_path, vocabulary):
  source = tmp_path / 'source'
  source.mkdir()
  for file in (hf / 'mt5' / 'draft').iterdir():
    (source / file.name).write_bytes(file.read_bytes())
  (source / 'spiece.model').write_bytes(vocabulary.read_bytes())
  import_checkpoint(source, tmp_path / 'model', 'huggingface')
  assert load_model(tmp_path / 'model').encode(['the dog'])[0, -1] == 1


def test_a_failed_import_leaves_nothing(t5x, tmp_path, monkeypatch):
  from specdec_jax.checkpoints import t5x as t5x_lib
  read = t5x_lib.TensorStoreReader.read

  def fail_late(self, path):
    if path.endswith('pre_mlp_layer_norm/scale'):
      raise CheckpointError('the disk is gone')
    return read(self, path)

  monkeypatch.setattr(t5x_lib.TensorStoreReader, 'read', fail_late)
  with pytest.raises(CheckpointError, match='the disk is gone'):
    import_checkpoint(t5x / NATIVE, tmp_path / 'model', 't5x')
  assert not list(tmp_path.iterdir())


def test_integer_parameters_are_refused(t5x, tmp_path, hf):
  from safetensors import numpy as safetensors
  source = tmp_path / 'source'
  source.mkdir()
  tensors = safetensors.load_file(hf / 'mt5' / 'draft' / 'model.safetensors')
  tensors['shared.weight'] = tensors['shared.weight'].astype(np.int8)
  safetensors.save_file(tensors, source / 'model.safetensors')
  (source / 'config.json').write_text((hf / 'mt5' / 'draft' / 'config.json').read_text())
  with pytest.raises(CheckpointError, match='token_embedder/embedding .*quantised'):
    import_checkpoint(source, tmp_path / 'model', 'huggingface')
