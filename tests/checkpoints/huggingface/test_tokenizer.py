"""Tokenizers of Hugging Face checkpoints: ids and texts of transformers' own; see tests/fixtures/README.md."""

import json
import pathlib

import pytest
import tiny
from etils import epath

import specdec_jax as sd
from specdec_jax import paths
from specdec_jax.checkpoints.description import find_vocabulary, write_description
from specdec_jax.checkpoints.huggingface import tokenizer
from specdec_jax.checkpoints.huggingface.writer import _write_tokenizer
from specdec_jax.checkpoints.writers import Export
from specdec_jax.data.vocabulary import _sentinels
from specdec_jax.errors import CheckpointError, SettingError

FIXTURES = pathlib.Path(__file__).parents[2] / 'fixtures' / 'tokenizers'
EXPECTED = json.loads((FIXTURES / 'expected.json').read_text())
CASES = EXPECTED['cases']
ROWS = 5_200


def checkpoint(folder, files, **config):
  """A checkpoint without weights: files by name, contents, or names of fixtures."""
  folder.mkdir(parents=True)
  (folder / 'config.json').write_text(json.dumps(config))
  for name, content in files.items():
    if isinstance(content, dict):
      (folder / name).write_text(json.dumps(content))
    elif isinstance(content, bytes):
      (folder / name).write_bytes(content)
    else:
      source = paths.resolve(content) if content.startswith('embedded:') else FIXTURES / content
      (folder / name).write_bytes(pathlib.Path(source).read_bytes())
  return epath.Path(folder)


def config(rows=ROWS, **changes):
  return tiny.config(vocab_size=rows, num_pieces=0, **changes)


def found(folder, name, **changes):
  """What is found in the checkpoint of a case."""
  case = CASES[name]
  settings = {'tokenizer_class': case['class']} if case['class'] else {}
  directory = checkpoint(folder / 'c', {**case['files'], **changes}, model_type=case['model_type'], **settings)
  return tokenizer.find(directory, config(relative_bias_per_layer=case['model_type'] == 'umt5'), None)


@pytest.mark.parametrize('name', CASES)
def test_ids_and_texts_are_those_of_transformers(tmp_path, name):
  case, result = CASES[name], found(tmp_path, name)
  v = result.vocabulary
  assert v.size == result.num_pieces == case['size']
  for text, whole, plain, decoded in zip(EXPECTED['texts'], case['ids'], case['plain'], case['decoded'], strict=True):
    assert v.encode(text) == plain, text
    assert v.model_input(text) == whole, text
    left_out = {0, 1, 2} if name.startswith('byt5') else {*v.model_input('')}
    if not left_out & {*plain}:
      assert v.decode(plain) == v.decode([*plain, v.eos_id, v.size + 5]) == decoded, text
  assert v.encode_rows(EXPECTED['texts']) == case['ids']


@pytest.mark.parametrize('name', ['t5', 't5_added', 't5_json', 'umt5_json', 'llama', 'code', 'bert', 'byt5_added'])
def test_a_model_directory_and_an_export_keep_it(tmp_path, name):
  v, out = found(tmp_path, name).vocabulary, epath.Path(tmp_path / 'out')
  model = config(v.size + 3)
  write_description(epath.Path(tmp_path), model, 'float32', v)
  out.mkdir()
  _write_tokenizer(out, Export(config=model, vocabulary=v, leaves={}, read=None, place='', step=0))
  (out / 'config.json').write_text('{"model_type": "t5"}')
  for again in (find_vocabulary(tmp_path, model), tokenizer.find(out, model, None).vocabulary):
    assert again == v and again.files.keys() == v.files.keys()
    assert again.encode_rows(EXPECTED['texts']) == CASES[name]['ids']


@pytest.mark.parametrize('extra_ids', [0, 3])
def test_a_sentencepiece_file_of_t5x_goes_to_transformers(tmp_path, extra_ids):
  v, out = tiny.vocabulary(tmp_path).with_sentinels(extra_ids), epath.Path(tmp_path / 'out')
  out.mkdir()
  _write_tokenizer(out, Export(config=config(), vocabulary=v, leaves={}, read=None, place='', step=0))
  again = tokenizer.find(out, config(), None).vocabulary
  assert again == v and set(again.files) == {'tokenizer.json', 'spiece.model'}
  for text in ('ein Haus am See', ' noch <extra_id_1>  Meer' if extra_ids else ' noch  ein Meer'):
    assert again.model_input(text) == v.model_input(text)
    assert again.decode(again.encode(text)) == v.decode(v.encode(text)).replace(' <extra', '<extra')


def test_pieces_as_a_person_reads_them(tmp_path):
  llama, code = found(tmp_path / 'a', 'llama').vocabulary, found(tmp_path / 'b', 'code').vocabulary
  assert [llama.piece(i) for i in (2, 4 + 0x41, 4 + 0xC3, 330)] == ['</s>', 'A', '<0xC3>', '<330>']
  assert llama.piece(llama.encode('open')[0]) == '\u2581open' and code.piece(code.encode(' open')[0]) == ' o'
  assert code.piece(309) == '<extra_id_0>'


def test_which_file_is_read(tmp_path):
  """tokenizer.json before SentencePiece, as in transformers; the SentencePiece file is kept for other programs."""
  other = tiny.vocabulary(tmp_path).model_bytes
  v = found(tmp_path, 't5_json', **{'spiece.model': other}).vocabulary
  assert v.path.endswith('tokenizer.json') and v.size == CASES['t5_json']['size'] and v.files['spiece.model'] == other
  assert tokenizer.find(checkpoint(tmp_path / 'none', {}, model_type='t5'), config(), None) is None


def test_a_vocabulary_that_a_user_names(tmp_path):
  place = checkpoint(tmp_path / 'c', {'code.json': 'code.tokenizer.json', 'x.model': 't5.tokenizer.json'})
  assert tokenizer.read(place / 'code.json', config(), None).vocabulary.eos_id == 2
  assert tokenizer.read(place / 'bytes', config(384), None).vocabulary == sd.ByteVocabulary()
  assert tokenizer.read(place / 'bytes', config(300), None).num_pieces == 300  # as far as there are rows
  assert tokenizer.read(place / 'bytes', config(384), None, 7).num_pieces == 266
  with pytest.raises(CheckpointError, match=r"x.model' is not a SentencePiece model"):
    tokenizer.read(place / 'x.model', config(), None)
  with pytest.raises(SettingError, match=r"extra_ids is for SentencePiece files; '.*code.json' names its sentinels"):
    tokenizer.read(place / 'code.json', config(), None, 5)


@pytest.mark.parametrize('template, rows, size', [
    ({}, ROWS, 5_100), ({}, 5_000, 5_000), ({'extra_ids': 7}, ROWS, 5_007)])
def test_sentinels_of_a_sentencepiece_file(tmp_path, template, rows, size):
  """As transformers has them, as far as there are rows for what nothing says."""
  files = {'spiece.model': 'embedded:ende/spiece.model', **({'tokenizer_config.json': template} if template else {})}
  v = tokenizer.find(checkpoint(tmp_path / 'c', files, model_type='t5'), config(rows), None).vocabulary
  assert v.size == size and (v.pieces[-1] == '<extra_id_0>') == (size > 5_000)


def test_sentinels_among_the_pieces_are_found_in_texts(tmp_path):
  """mT5's file, and T5X's of 32,100 pieces, have them with a space before."""
  plain = sd.Vocabulary('embedded:ende/spiece.model')
  files = {'spiece.model': plain.model_bytes + _sentinels(9), 'tokenizer_config.json': {'extra_ids': 0}}
  v = tokenizer.find(checkpoint(tmp_path / 'c', files, model_type='mt5'), config(), None).vocabulary
  assert v.size == 5_009 and v == plain.with_sentinels(9)
  assert v.encode('Open<extra_id_8>')[-1] == 5_000 and v.encode('<extra_id_0>') == [5_008]
  assert v.encode('<extra_id_9>') != [5_009] and v.decode([5_008]) == '<extra_id_0>'


def test_the_end_of_a_text(tmp_path):
  """The template's, whatever the model's EOS is: an encoder's inputs end as the tokenizer was made to."""
  place = checkpoint(tmp_path / 'c', {'vocab.txt': 'bert.vocab.txt'}, model_type='t5', tokenizer_class='BertTokenizer')
  for eos_id in (None, 1):
    v = tokenizer.find(place, config(), eos_id).vocabulary
    assert v.eos_id == 3 and v.model_input('') == [2, 3]
  without = json.loads((FIXTURES / 't5.tokenizer.json').read_text()) | {'post_processor': None}
  place = checkpoint(tmp_path / 'd', {'tokenizer.json': without}, model_type='t5')
  assert tokenizer.find(place, config(), None).vocabulary.model_input('')[-1] == 1  # by its name
  assert tokenizer.find(place, config(), 9).vocabulary.model_input('')[-1] == 9  # the model's


def test_truncation_and_padding_of_the_file_do_not_count(tmp_path):
  content = json.loads((FIXTURES / 't5.tokenizer.json').read_text())
  content['truncation'] = {'direction': 'Right', 'max_length': 3, 'strategy': 'LongestFirst', 'stride': 0}
  content['padding'] = {'strategy': {'Fixed': 9}, 'direction': 'Right', 'pad_to_multiple_of': None, 'pad_id': 0,
                        'pad_type_id': 0, 'pad_token': '<pad>'}
  v = found(tmp_path, 't5_json', **{'tokenizer.json': content}).vocabulary
  assert v.encode_rows(EXPECTED['texts']) == CASES['t5_json']['ids']


DAMAGE = [
    ('t5_json', 'tokenizer.json', lambda b: b[:len(b) // 2], 'is not a file of the tokenizers library'),
    ('t5_json', 'tokenizer.json', lambda b: b'', 'is not a file of the tokenizers library'),
    ('t5_json', 'tokenizer.json', lambda b: b'{}', 'is not a file of the tokenizers library'),
    ('t5_json', 'tokenizer.json', lambda b: b'\xff' + b, 'is not UTF-8'),
    ('t5_json', 'tokenizer.json', lambda b: b'[' * 10 ** 5, 'is not a file of the tokenizers library'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{', 'is truncated or not JSON'),
    ('llama', 'tokenizer_config.json', lambda b: b'{"tokenizer_class": 5}', 'tokenizer_class'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"eos_token": 5}', 'eos_token has 5, which is no token'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"added_tokens_decoder": [1]}', 'added_tokens_decoder must be'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"added_tokens_decoder": {"-1": "x"}}', 'added_tokens_decoder'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"added_tokens_decoder": {"90": "xyz"}}',
     "the added token 'xyz' has the id 90, but the next one of 'tokenizer.json' is"),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"additional_special_tokens": "x"}', 'must be a list of tokens'),
    ('t5_json', 'tokenizer_config.json', lambda b: b'{"additional_special_tokens": [{"content": "x", "lstrip": 1}]}',
     'which is no token'),
    ('t5_added_json', 'added_tokens.json', lambda b: b'{"x": "5"}', "the id of 'x' is '5'"),
    ('t5_added_json', 'added_tokens.json', lambda b: b'[]', 'is not a JSON object'),
    ('t5_added_json', 'tokenizer_config.json', lambda b: b'{"extra_ids": -1}', 'extra_ids is -1'),
    ('t5_added_json', 'tokenizer_config.json', lambda b: b'{"legacy": "no"}', 'legacy'),
    ('llama', 'tokenizer.model', lambda b: b[:500], 'is not a SentencePiece model'),
    ('llama', 'tokenizer.model', lambda b: b'', 'has 0 pieces'),
    ('code', 'merges.txt', None, 'no merges.txt'),
    ('code', 'merges.txt', lambda b: b'#version: 0.2\na\n', 'is not a file of the tokenizers library'),
    ('code', 'merges.txt', lambda b: b'a b c\n', 'is not a file of the tokenizers library'),
    ('code', 'vocab.json', lambda b: b'{"a": "b"}', 'is not a file of the tokenizers library'),
    ('code', 'vocab.json', lambda b: b'{"a": -1}', 'is not a file of the tokenizers library'),
    ('code', 'vocab.json', lambda b: b'[1]', 'is not a JSON object'),
    ('bert', 'vocab.txt', lambda b: b'', r'cannot encode a text \(WordPiece error'),
    ('bert', 'vocab.txt', lambda b: b.replace(b'[UNK]', b'[UNL]'), r'cannot encode a text \(WordPiece error'),
    ('bert', 'vocab.txt', lambda b: b'\xff', 'is not UTF-8'),
    ('byt5', 'tokenizer_config.json', lambda b: b'{"tokenizer_class": "ByT5Tokenizer", "extra_ids": "5"}', 'extra_ids')]


@pytest.mark.parametrize('name, file, change, words', DAMAGE, ids=lambda x: x if isinstance(x, str) else '')
def test_damage_is_one_clear_line(tmp_path, name, file, change, words):
  content = CASES[name]['files'][file]
  whole = json.dumps(content).encode() if isinstance(content, dict) else (FIXTURES / content).read_bytes()
  place = checkpoint(tmp_path / 'c', {**CASES[name]['files'], file: b'' if change is None else change(whole)},
                     model_type='t5')
  if change is None:
    (place / file).unlink()
  with pytest.raises(CheckpointError, match=words) as error:
    tokenizer.find(place, config(), None)
  assert '\n' not in str(error.value) and str(place) in str(error.value)
