"""SentencePiece vocabularies and what both kinds have in common."""

import json
import pathlib

import pytest
import tiny
import tiny_lm

from specdec_jax.data import identity
from specdec_jax.data.byte_vocabulary import ByteVocabulary
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.data.tokenizers_making import of_sentencepiece
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.data.vocabulary import Vocabulary, _sentinels
from specdec_jax.errors import InputError

EXPECTED = json.loads((pathlib.Path(__file__).parents[1] / 'fixtures' / 'tokenizers' / 'expected.json').read_text())
EMBEDDED = Vocabulary('embedded:ende/spiece.model')


@pytest.fixture(scope='module')
def vocabulary(tmp_path_factory):
  return tiny.vocabulary(tmp_path_factory.mktemp('vocabulary'))


def test_all_kinds_are_tokenizers(vocabulary, tmp_path):
  for found in (vocabulary, tiny_lm.vocabulary(tmp_path), ByteVocabulary()):
    assert isinstance(found, Tokenizer)
    again = ByteVocabulary() if found.path == 'bytes' else type(found)(found.path)
    assert found == again and hash(found) == hash(again) and found is not again
    assert len(found.digest) == len(found.identity) == 64 and found.model_bytes in found.files.values()
    assert len(found.pieces) == found.size


def test_texts_come_back(vocabulary):
  ids = vocabulary.encode('ein Haus am See')
  assert vocabulary.model_input('ein Haus am See') == [*ids, 1]
  assert vocabulary.decode(ids) == 'ein Haus am See'
  assert vocabulary.decode([*ids, vocabulary.size, 10**6, -1]) == 'ein Haus am See'  # no pieces
  assert vocabulary.decode([*ids, 1, *ids]) == 'ein Haus am See ein Haus am See'  # a model cuts at its ends
  assert (vocabulary.start, vocabulary.context_id, vocabulary.eos_id) == ((), 0, 1)
  assert vocabulary.piece(ids[1]) in 'ein Haus am See' and vocabulary.piece(99) == '<99>'


def test_what_is_no_vocabulary_is_named(tmp_path):
  with pytest.raises(FileNotFoundError, match='no SentencePiece file at'):
    Vocabulary(tmp_path / 'spiece.model')
  (tmp_path / 'spiece.model').write_text('nothing')
  with pytest.raises(InputError, match=r"spiece.model' is not a SentencePiece model"):
    Vocabulary(tmp_path / 'spiece.model')


def test_sentinels_are_those_of_seqio():
  """seqio's SentencePieceVocabulary over the same file, 100 extra ids: ids, and texts with their spaces."""
  v = EMBEDDED.with_sentinels(100)
  assert v.size == 5_100 and v.pieces[5_000:] == tuple(f'<extra_id_{i}>' for i in reversed(range(100)))
  assert v.digest == EMBEDDED.digest and v.files == EMBEDDED.files and v != EMBEDDED
  for text, ids, decoded in zip(EXPECTED['texts'], EXPECTED['seqio']['ids'], EXPECTED['seqio']['decoded'], strict=True):
    assert v.encode(text) == ids and v.decode(ids) == decoded, text
  assert v.encode_rows(['<extra_id_0>.']) == [[5_099, *v.encode('x.')[-1:], 1]]


def test_bytes_are_those_of_seqio():
  v = ByteVocabulary()
  known = '</s>', '<pad>', '<unk>', '<extra_id_'
  cases = EXPECTED['seqio_bytes']
  for text, ids, decoded in zip(EXPECTED['texts'], cases['ids'], cases['decoded'], strict=True):
    if not any(word in text for word in known):  # seqio has no special tokens in texts
      assert v.encode(text) == ids and v.decode([0, *ids, 1]) == decoded, text
  assert (v.size, v.eos_id, v.start, v.context_id) == (384, 1, (), 0)
  assert v.encode('\ud800') == [0xed + 3, 0xa0 + 3, 0x80 + 3] and v.decode(v.encode('\ud800')) == ''
  assert [v.piece(i) for i in (1, 3, 68, 198, 259, 384)] == ['</s>', '<0x00>', 'A', '<0xC3>', '<extra_id_0>', '<384>']
  assert ByteVocabulary(0).size == 259 and ByteVocabulary(0).encode('<extra_id_0>')[0] == ord('<') + 3


@pytest.mark.parametrize('settings, words', [
    ({'extra_ids': -1}, 'ByteVocabulary.extra_ids is -1'), ({'added': {'x': 5}}, "the id of 'x' is 5"),
    ({'added': {'x': 259}}, 'have the same id'), ({'added': {'x': '999'}}, "the id of 'x' is '999'")])
def test_byte_vocabularies_that_cannot_be(settings, words):
  with pytest.raises(ValueError, match=words):
    ByteVocabulary(**settings)


@pytest.mark.parametrize('content', [b'{', b'[]', b'{}', b'{"extra_ids": 3, "added": 5}', b'{"extra_ids": 3, "x": {}}'])
def test_damaged_descriptions_of_bytes(tmp_path, content):
  (tmp_path / 'bytes.json').write_bytes(content)
  with pytest.raises(ValueError, match='bytes.json'):
    ByteVocabulary.read(tmp_path / 'bytes.json')


def test_what_ids_mean_is_compared(tmp_path):
  """T5X's file with the sentinels in it, transformers' tokenizer of 5,000 pieces and 100 extra ids: one tokenizer."""
  with_sentinels = EMBEDDED.with_sentinels(100)
  (tmp_path / 'whole.model').write_bytes(EMBEDDED.model_bytes + _sentinels(100))
  in_file = Vocabulary(tmp_path / 'whole.model')
  theirs = TokenizersVocabulary.of(of_sentencepiece(EMBEDDED.model_bytes, 100), 'x', encoder=True)
  assert with_sentinels == in_file == theirs and len({with_sentinels, in_file, theirs}) == 1
  assert len({with_sentinels.digest, in_file.digest, theirs.digest}) == 3
  assert identity.difference(EMBEDDED, theirs) is None  # of the ids that both have
  shifted = TokenizersVocabulary.of(of_sentencepiece(EMBEDDED.model_bytes, 99), 'x', encoder=True)
  assert identity.difference(shifted, theirs) == 5_000 and identity.difference(shifted, theirs, 5_000) is None
