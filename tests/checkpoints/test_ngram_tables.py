"""N-gram tables: what is saved is what is loaded, and damage is named."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import specdec_jax as sd
from specdec_jax.checkpoints.ngram_tables import load_ngram, save_ngram
from specdec_jax.errors import CheckpointError


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
  for words in ('bytes of', 'is damaged'):  # with its checksums, and as tables were before there were any
    for torn in (b'', whole[:50], whole[:-30]):
      (tmp_path / 'table' / 'counts.npz').write_bytes(torn)
      with pytest.raises(CheckpointError, match=words) as error:
        load_ngram(tmp_path / 'table')
      assert '\n' not in str(error.value)
    (tmp_path / 'table' / 'files.json').unlink(missing_ok=True)


def test_every_bit_counts(bigram, tmp_path):
  save_ngram(bigram, tmp_path / 'table')
  for name in ('ngram.json', 'counts.npz', 'files.json'):
    content = (tmp_path / 'table' / name).read_bytes()
    for bit in range(0, 8 * len(content), 29):
      changed = bytearray(content)
      changed[bit // 8] ^= 1 << bit % 8
      (tmp_path / 'table' / name).write_bytes(changed)
      with pytest.raises(CheckpointError):
        load_ngram(tmp_path / 'table')
    (tmp_path / 'table' / name).write_bytes(content)


@pytest.mark.parametrize('changes', [
    {'order': 3}, {'order': '2'}, {'start_id': -1}, {'start_id': 7}, {'start_id': None}, {'vocabulary': 5},
    {'num_tokens': 8}, {'successors': 1}, {'successors': 'x'}])
def test_descriptions_that_do_not_fit_are_told(bigram, tmp_path, changes):
  save_ngram(bigram, tmp_path / 'table')
  (tmp_path / 'table' / 'files.json').unlink()
  path = tmp_path / 'table' / 'ngram.json'
  fields = json.loads(path.read_text())
  for content in ({**fields, **changes}, {n: v for n, v in fields.items() if n not in changes}):
    path.write_text(json.dumps(content))
    with pytest.raises(CheckpointError, match='is damaged') as error:
      load_ngram(tmp_path / 'table')
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('order, name', [(1, 'unigram table (5000 tokens)'),
                                         (2, 'bigram table (5000 tokens, 32 successors)')])
def test_shipped_tables(order, name):
  table = load_ngram(f'embedded:ende/{"unigram" if order == 1 else "bigram"}')
  assert table.name == name and table.order == order
  assert table.digest == sd.Vocabulary('embedded:ende/spiece.model').digest
