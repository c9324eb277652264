"""SentencePiece vocabularies and what both kinds have in common."""

import pytest
import tiny
import tiny_lm

from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import InputError


@pytest.fixture(scope='module')
def vocabulary(tmp_path_factory):
  return tiny.vocabulary(tmp_path_factory.mktemp('vocabulary'))


def test_both_kinds_are_tokenizers(vocabulary, tmp_path):
  for found in (vocabulary, tiny_lm.vocabulary(tmp_path)):
    assert isinstance(found, Tokenizer)
    assert found == type(found)(found.path) and len(found.digest) == 64 and found.model_bytes


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
