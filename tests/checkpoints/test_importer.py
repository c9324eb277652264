"""scripts/import_checkpoint.py as a user runs it, and the importer's choices."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest
import sentencepiece
from safetensors import numpy as safetensors

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.checkpoints.source import prepare
from specdec_jax.errors import CheckpointError, SettingError

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


@pytest.mark.long
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
  with pytest.raises(CheckpointError, match='There is no SentencePiece file'):
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


def prepared(path, checkpoint_format, **options):
  """(the configuration, the sentences on what was assumed) of an import that is not carried out."""
  source = prepare(path, checkpoint_format, **options)
  assert all('\n' not in sentence for sentence in source.assumed)
  return source.config, source.assumed


@pytest.mark.parametrize('version, activations', [('v1_1', ('gelu', 'linear')), ('v1_0', ('relu',))])
def test_what_a_t5x_tree_does_not_tell_is_assumed_and_told(t5x, version, activations):
  config, told = prepared(t5x / version / 'checkpoint_0', 't5x_orbax')
  assert config.mlp_activations == activations
  assert told[-1] == (
      f'The checkpoint does not say these, and they are assumed: mlp_activations = {activations!r}, '
      "encoder_attention = 'full', "
      'max_distance = 128, layer_norm_epsilon = 1e-06, decoder_start_id = 0, eos_ids = (1,), pad_id = 0; '
      '--activation=NAME or a gin file says otherwise.')


@pytest.mark.parametrize('version, activation, activations', [
    ('v1_1', 'silu', ('silu', 'linear')), ('v1_0', 'gelu', ('gelu',))])
def test_the_activation_is_told_by_a_flag(t5x, tmp_path, expected, version, activation, activations):
  notes = []
  config = import_checkpoint(t5x / version / 'checkpoint_0', tmp_path / 'model', 't5x_orbax', activation=activation,
                             note=notes.append)
  assert config.mlp_activations == activations and 'mlp_activations' not in notes[-1]
  e, wanted = expected(t5x / version), np.load(ROOT / 'tests' / 'fixtures' / 'overrides.npz')
  found = load_model(tmp_path / 'model').logits(e.encoder_input_tokens[:1], e.decoder_input_tokens[:1])
  np.testing.assert_allclose(found, wanted[f't5x_{version}_{activation}'], rtol=0, atol=1e-3)
  assert np.abs(found - e.logits[:1]).max() > 0.3  # and not what would be assumed


@pytest.mark.parametrize('kind, options, words', [
    ('hf', {'activation': 'silu'}, "activation is 'silu', but config.json says the activation"),
    ('t5x', {'activation': 'laplace'}, "activation is 'laplace'; use one of relu, gelu"),
    ('t5x', {'activation': 'silu', 'gin_file': True}, "activation is 'silu', but the gin file says"),
    ('t5x', {'ignore': ['min_p']}, 'ignore is for Hugging Face checkpoints'),
    ('t5x', {'storage': 'float16'}, "storage is 'float16'; use one of"),
    ('t5x', {'extra_ids': -1}, 'extra_ids is -1'), ('t5x', {'extra_ids': 2.5}, 'extra_ids is 2.5')])
def test_settings_that_cannot_be(t5x, hf, tmp_path, vocabulary, kind, options, words):
  (tmp_path / 'm.gin').write_text("T5Config.mlp_activations = ('silu', 'linear')")
  options = {**options, **({'gin_file': tmp_path / 'm.gin'} if 'gin_file' in options else {})}
  path, name = (hf / 'mt5' / 'draft', 'huggingface') if kind == 'hf' else (t5x / NATIVE, 't5x')
  with pytest.raises(SettingError, match=words):
    prepare(path, name, vocabulary=vocabulary, **options)


def test_a_gin_file_says_what_would_be_assumed(t5x, tmp_path):
  (tmp_path / 'm.gin').write_text("T5Config.mlp_activations = ('gelu', 'linear')\nT5Config.max_distance = 128\n"
                                  'T5Config.eos_id = 7\n')
  config, told = prepared(t5x / NATIVE, 't5x', gin_file=tmp_path / 'm.gin')
  assert config.eos_ids == (7,)
  assert 'assumed: layer_norm_epsilon = 1e-06, decoder_start_id = 0, eos_ids' not in told[-1]
  assert 'mlp_activations' not in told[-1] and 'max_distance' not in told[-1]


def with_vocabulary(folder, source, pieces, rows, tokenizer=None, eos_id=1):
  """A Hugging Face checkpoint with so many rows, and a vocabulary of so many pieces beside it."""
  shutil.copytree(source, folder)
  tensors = safetensors.load_file(folder / 'model.safetensors')
  for name in ('shared.weight', 'lm_head.weight'):
    tensors[name] = np.zeros((rows, tensors[name].shape[1]), np.float32)
  safetensors.save_file(tensors, folder / 'model.safetensors')
  fields = json.loads((folder / 'config.json').read_text())
  (folder / 'config.json').write_text(json.dumps({**fields, 'vocab_size': rows}))
  (folder / 'spiece.model').write_bytes(sentencepiece_model(pieces, eos_id))
  if tokenizer is not None:
    (folder / 'tokenizer_config.json').write_text(json.dumps(tokenizer))
  return folder


def sentencepiece_model(pieces: int, eos_id: int = 1) -> bytes:
  """A SentencePiece file of T5's first pieces and made-up ones; field 1 is a piece, field 2 the special ids."""
  field = lambda number, body: bytes([8 * number + 2]) + varint(len(body)) + body
  varint = lambda n: bytes([n]) if n < 128 else bytes([n % 128 + 128]) + varint(n // 128)
  kinds = {0: 3, eos_id: 3, 2 if eos_id != 2 else 1: 2}  # control, control, unknown

  def piece(i):
    text = {0: '<pad>', eos_id: '</s>'}.get(i, '<unk>' if kinds.get(i) == 2 else f'\u2581w{i}').encode()
    kind = bytes([0x18]) + varint(kinds[i]) if i in kinds else b''
    return field(1, field(1, text) + b'\x15\0\0\0\xc1' + kind)

  unk = next(i for i, kind in kinds.items() if kind == 2)
  ids = {40: unk, 41: 2 ** 64 - 1, 42: eos_id, 43: 0}  # of unknown, beginning (none), end, padding
  numbers = b''.join(varint(8 * number) + varint(value) for number, value in ids.items())
  return b''.join(map(piece, range(pieces))) + field(2, numbers)


def test_a_vocabulary_of_as_many_pieces_as_rows_has_no_sentinels(hf, tmp_path):
  """MADLAD-400's: 256,000 pieces, as many rows, extra_ids 0."""
  source = with_vocabulary(tmp_path / 'x', hf / 'mt5' / 'draft', 256_000, 256_000, {'extra_ids': 0})
  config, told = prepared(source, 'huggingface')
  assert config.num_pieces == 256_000 and told == []


def test_more_sentinels_than_rows_are_refused(hf, tmp_path):
  source = with_vocabulary(tmp_path / 'x', hf / 'mt5' / 'draft', 100, 128, {'extra_ids': 40})
  with pytest.raises(CheckpointError, match='has 140 pieces but the model only'):
    prepare(source, 'huggingface')


def test_the_configurations_eos_goes_before_the_vocabularys(hf, t5x, tmp_path):
  source = with_vocabulary(tmp_path / 'x', hf / 'mt5' / 'draft', 100, 128, eos_id=5)
  config, told = prepared(source, 'huggingface')
  assert config.eos_ids == (1,)
  assert told[-1].startswith("The configuration ends texts with 1 (") and 'the vocabulary with 5 (' in told[-1]
  assert 'decoding ends as the configuration says' in told[-1]
  fields = json.loads((source / 'generation_config.json').read_text())
  (source / 'generation_config.json').write_text(json.dumps({**fields, 'eos_token_id': [7, 5]}))
  config, told = prepared(source, 'huggingface')
  assert config.eos_ids == (7, 5) and not any('ends texts' in sentence for sentence in told)
  (tmp_path / 'small.model').write_bytes(sentencepiece_model(90, eos_id=5))
  config, told = prepared(t5x / NATIVE, 't5x', vocabulary=tmp_path / 'small.model')  # T5X's does not say
  assert config.eos_ids == (5,) and 'eos_ids' not in told[-1]


def test_without_a_vocabulary_it_is_told(hf, tmp_path):
  told = prepared(hf / 'mt5' / 'draft', 'huggingface')[1]
  assert told == ['No vocabulary was found: nothing is masked, and texts can be neither given nor shown. Name a '
                  'SentencePiece file with --vocabulary=FILE.']
  shutil.copytree(hf / 'mt5' / 'draft', tmp_path / 'x')
  (tmp_path / 'x' / 'tokenizer.json').write_text('{}')
  with pytest.raises(CheckpointError, match='is not a file of the tokenizers library'):
    prepare(tmp_path / 'x', 'huggingface')


TOKENIZERS = ROOT / 'tests' / 'fixtures' / 'tokenizers'


def test_an_encoder_decoder_with_a_tokenizer_of_its_own(hf, tmp_path):
  """uer's Chinese T5: BERT's tokenizer, [CLS] before a text, and no EOS in the configuration."""
  source = with_vocabulary(tmp_path / 'x', hf / 'mt5' / 'draft', 100, 128)
  (source / 'spiece.model').unlink()
  shutil.copy(TOKENIZERS / 'bert.vocab.txt', source / 'vocab.txt')
  (source / 'generation_config.json').unlink()
  fields = json.loads((source / 'config.json').read_text())
  config = {k: v for k, v in fields.items() if k != 'eos_token_id'} | {
      'decoder_start_token_id': 2, 'tokenizer_class': 'BertTokenizer'}
  (source / 'config.json').write_text(json.dumps(config))
  found = prepare(source, 'huggingface')
  assert (found.config.eos_ids, found.config.decoder_start_id) == ((3,), 2)
  assert "the vocabulary's is taken, 3 ('[SEP]')" in ' '.join(found.assumed)
  ids = found.vocabulary.model_input('open the file')
  assert (ids[0], ids[-1]) == (2, 3)
  with pytest.raises(SettingError, match='extra_ids is for SentencePiece files'):
    prepare(source, 'huggingface', extra_ids=3)


def test_bytes_are_a_vocabulary_without_a_file(hf, t5x, tmp_path):
  with_vocabulary(tmp_path / 'x', hf / 'mt5' / 'draft', 100, 384)
  (tmp_path / 'x' / 'spiece.model').unlink()
  assert prepared(tmp_path / 'x', 'huggingface')[1][-1].endswith("ByT5's is --vocabulary=bytes.")
  assert prepared(tmp_path / 'x', 'huggingface', vocabulary='bytes')[0].num_pieces == 384
  with pytest.raises(CheckpointError, match='has 266 pieces but the model only 96 rows'):
    prepare(t5x / NATIVE, 't5x', vocabulary='bytes', extra_ids=7)


@pytest.mark.parametrize('content, words', [
    (b'', 'has 0 pieces'), (b'\0' * 1000, 'not a SentencePiece model'), (b'hello', 'not a SentencePiece model'),
    ('/dev/null', 'is a device, not a file'), ('/dev/zero', 'is a device, not a file'), ('pipe', 'is a pipe'),
    ('folder', 'is a directory'), ('none', 'There is no SentencePiece file'), (2 << 30, '2,147,483,648 bytes')],
    ids=str)
def test_vocabularies_that_are_none(t5x, tmp_path, content, words):
  path = tmp_path / 'v.model'
  if content in ('/dev/null', '/dev/zero'):
    path = content
  elif isinstance(content, bytes):
    path.write_bytes(content)
  elif content == 'pipe':
    os.mkfifo(path)
  elif content == 'folder':
    path.mkdir()
  elif isinstance(content, int):
    with path.open('wb') as f:
      f.truncate(content)  # zeros that take no room
  with pytest.raises(CheckpointError, match=words) as caught:
    prepare(t5x / NATIVE, 't5x', vocabulary=path)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('storage', ['float32', 'int8'])
def test_weights_that_are_not_finite_are_named(hf, tmp_path, value, storage):
  source = shutil.copytree(hf / 'mt5' / 'draft', tmp_path / 'x')
  tensors = safetensors.load_file(source / 'model.safetensors')
  name = 'decoder.block.0.layer.2.DenseReluDense.wo.weight'
  tensors[name][1, 2] = tensors[name][3, 4] = value
  safetensors.save_file(tensors, source / 'model.safetensors')
  run = lambda **options: import_checkpoint(source, tmp_path / 'model', 'huggingface', storage=storage, **options)
  with pytest.raises(CheckpointError, match=r"'decoder/layers_0/mlp/wo/kernel' of .* has 2 of 384 numbers that are NaN "
                                            r'or infinite: .*--allow_nonfinite'):
    run()
  assert not (tmp_path / 'model').exists()
  notes = []
  if storage == 'int8':
    with pytest.raises(CheckpointError, match='not finite, which int8 cannot hold; store it as float32'):
      run(allow_nonfinite=True)
    return
  run(allow_nonfinite=True, note=notes.append)
  assert any('wo/kernel' in note and 'imported all the same' in note for note in notes)
  kernel = load_model(tmp_path / 'model').params['decoder']['layers_0']['mlp']['wo']['kernel']
  assert np.argwhere(~np.isfinite(kernel)).tolist() == [[2, 1], [4, 3]]


@pytest.mark.parametrize('name', ['[1]', '*', 'a b'])
def test_import_into_names_with_special_characters(hf, tmp_path, name):
  source = shutil.copytree(hf / 'mt5' / 'draft', tmp_path / f'{name} source')
  import_checkpoint(source, tmp_path / name, 'huggingface')
  assert load_model(tmp_path / name).config.emb_dim == 16


def test_a_layer_count_of_a_thousand_million_is_told_at_once(hf, tmp_path):
  source = shutil.copytree(hf / 'mt5' / 'draft', tmp_path / 'x')
  fields = json.loads((source / 'config.json').read_text())
  for name in ('num_layers', 'num_decoder_layers'):
    (source / 'config.json').write_text(json.dumps({**fields, name: 10 ** 9}))
    with pytest.raises(CheckpointError, match='layers is 1000000000; it must be a whole number from 1 to 1000'):
      prepare(source, 'huggingface')


def test_progress_goes_from_the_weights_to_their_checksums(t5x, tmp_path):
  seen = []
  import_checkpoint(t5x / NATIVE, tmp_path / 'model', 't5x', progress=lambda *x: seen.append(x))
  done, totals = zip(*seen, strict=True)
  assert set(totals) == {done[-1]} and list(done) == sorted(done) and done[-1] // 2 in done


def test_a_failed_import_leaves_nothing(t5x, tmp_path, monkeypatch):
  from specdec_jax.checkpoints.t5x import arrays as t5x_lib
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
  source = tmp_path / 'source'
  source.mkdir()
  tensors = safetensors.load_file(hf / 'mt5' / 'draft' / 'model.safetensors')
  tensors['shared.weight'] = tensors['shared.weight'].astype(np.int8)
  safetensors.save_file(tensors, source / 'model.safetensors')
  (source / 'config.json').write_text((hf / 'mt5' / 'draft' / 'config.json').read_text())
  with pytest.raises(CheckpointError, match='token_embedder/embedding .*quantised'):
    import_checkpoint(source, tmp_path / 'model', 'huggingface')
