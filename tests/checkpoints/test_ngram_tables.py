"""N-gram tables: what is saved is what is loaded, and damage is named."""

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import specdec_jax as sd
from specdec_jax.checkpoints.ngram_tables import load_ngram, save_ngram


@pytest.fixture
def vocabulary(tmp_path):
  return tiny.vocabulary(tmp_path)


@pytest.fixture
def bigram():
  return sd.NGramDrafter.fit([[2, 3, 2, 3, 1], [3, 2, 4, 1]], num_tokens=7, successors=2)


def test_saved_and_loaded(vocabulary, tmp_path):
  table = sd.NGramDrafter.fit([vocabulary.encode('ein Haus am Meer')], vocabulary=vocabulary)
  save_ngram(table, tmp_path / 'table')
  again = load_ngram(tmp_path / 'table')
  for name in ('unigram', 'contexts', 'successors', 'counts'):
    np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert getattr(again, name).dtype == jnp.int32
  assert (again.order, again.start_id, again.digest) == (2, 0, vocabulary.digest)
  one = load_ngram(tmp_path / 'table', order=1)
  np.testing.assert_array_equal(
      one.logits(jnp.array([3])), sd.NGramDrafter.fit(
          [vocabulary.encode('ein Haus am Meer')], vocabulary=vocabulary, order=1).logits(jnp.array([3])))
  save_ngram(one, tmp_path / 'unigram')
  with pytest.raises(ValueError, match='unigram table .*not one of order 2'):
    load_ngram(tmp_path / 'unigram', order=2)
  with pytest.raises(ValueError, match='exists already'):
    save_ngram(table, tmp_path / 'table')


def test_overwriting_deletes_nothing_but_a_table(bigram, tmp_path):
  save_ngram(bigram, tmp_path / 'table')
  save_ngram(bigram, tmp_path / 'table', overwrite=True)
  (tmp_path / 'table' / 'notes.txt').write_text('mine')
  (tmp_path / 'else').mkdir()
  (tmp_path / 'else' / 'counts.npz').write_text('mine')
  for name, words in (('table', "holds 'notes.txt'"), ('else', 'is no n-gram table')):
    with pytest.raises(ValueError, match=f"{name}' is not overwritten: it {words}"):
      save_ngram(bigram, tmp_path / name, overwrite=True)
  assert (tmp_path / 'table' / 'notes.txt').exists() and (tmp_path / 'else' / 'counts.npz').exists()


def test_files_that_are_not_there_or_torn(bigram, tmp_path):
  with pytest.raises(ValueError, match='No n-gram table at .*none'):
    load_ngram(tmp_path / 'none')
  with pytest.raises(FileNotFoundError, match='embedded:ende/bigram'):
    load_ngram('embedded:ende/trigram')
  save_ngram(bigram, tmp_path / 'table')
  whole = (tmp_path / 'table' / 'counts.npz').read_bytes()
  for torn in (b'', whole[:50], whole[:-30]):
    (tmp_path / 'table' / 'counts.npz').write_bytes(torn)
    with pytest.raises(ValueError, match='table is damaged|is damaged') as error:
      load_ngram(tmp_path / 'table')
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('order, name', [(1, 'unigram table (5000 tokens)'),
                                         (2, 'bigram table (5000 tokens, 32 successors)')])
def test_shipped_tables(order, name):
  table = load_ngram(f'embedded:ende/{"unigram" if order == 1 else "bigram"}')
  assert table.name == name and table.order == order
  assert table.digest == sd.Vocabulary('embedded:ende/spiece.model').digest
