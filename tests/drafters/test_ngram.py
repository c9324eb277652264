"""N-gram tables: counts and distributions by hand, files, and tokenizers that do not fit."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest
import specdec_jax as sd
from specdec_jax import logits_processors
from specdec_jax.drafters import ngram_counts
from specdec_jax.drafters.ngram import load_ngram
from specdec_jax.standardizer import Standardizer
import tiny

TEXTS = [[2, 3, 2, 3, 1], [3, 2, 4, 1], np.array([2, 3, 1, 0, 0]), []]
SIZE = 7


@pytest.fixture(scope='module')
def bigram():
  return sd.NGramDrafter.fit(TEXTS, num_tokens=SIZE, successors=2)


def smooth_unigram():
  counts = np.array([0, 3, 4, 4, 1, 0, 0]) + 0.5
  return counts / counts.sum()


def test_counts_by_hand(bigram):
  assert bigram.unigram.tolist() == [0, 3, 4, 4, 1, 0, 0] and bigram.num_counted == 12
  assert bigram.contexts.tolist() == [3, 0, 4, 4, 1, 0, 0]
  assert bigram.successors.tolist() == [[2, 3], [7, 7], [3, 4], [1, 2], [1, 7], [7, 7], [7, 7]]
  assert bigram.counts.tolist() == [[2, 1], [0, 0], [3, 1], [2, 2], [1, 0], [0, 0], [0, 0]]


def test_distributions_by_hand(bigram):
  standardizer, unigram = np.exp(bigram.logits(jnp.array([2, 5, 99]))), smooth_unigram()
  wanted = np.where(np.isin(np.arange(SIZE), [3, 4]), 0, unigram)
  wanted *= 0.25 / wanted.sum()
  wanted[[3, 4]] = 2.5 / 4, 0.5 / 4
  np.testing.assert_allclose(standardizer[0], wanted, rtol=1e-5)
  np.testing.assert_allclose(standardizer[1:], [unigram, unigram], rtol=1e-5)  # never seen, and outside the table
  one = sd.NGramDrafter.fit(TEXTS, num_tokens=SIZE, order=1)
  np.testing.assert_allclose(np.exp(one.logits(jnp.array([2]))), [unigram], rtol=1e-5)
  assert one.successors.shape == (SIZE, 0)


def test_what_is_not_kept_goes_to_the_unigram_distribution():
  cut = sd.NGramDrafter.fit(TEXTS, num_tokens=SIZE, successors=1)
  standardizer = np.exp(cut.logits(jnp.array([3])))[0]
  assert standardizer[1] == pytest.approx(1.5 / 4)
  rest = np.delete(smooth_unigram(), 1)
  np.testing.assert_allclose(np.delete(standardizer, 1), rest * (2.5 / 4) / rest.sum(), rtol=1e-5)


def test_sampling_mask_and_processors_apply(bigram):
  text, first = np.array([[0, 2, 4]], np.int32), np.zeros(1, np.int32)
  distributions = lambda **options: np.asarray(bigram.distributions(None, text, first, Standardizer(
      **{'sampling': sd.Sampling(), 'num_rows': 9, 'num_tokens': SIZE, **options})))[0]
  np.testing.assert_allclose(distributions()[1], [*np.exp(bigram.logits(jnp.array(2))), 0, 0], rtol=1e-5)
  assert distributions(sampling=sd.Sampling(temperature=0)).argmax(-1).tolist() == [2, 3]
  assert distributions(sampling=sd.Sampling(temperature=0)).sum() == 2
  assert (distributions(sampling=sd.Sampling(top_k=2)) > 0).sum(-1).tolist() == [2, 2]
  assert (distributions(num_tokens=3)[:, 3:] == 0).all()
  forbidden = distributions(processors=(logits_processors.ForbiddenTokens((3,)),))
  assert (forbidden[:, 3] == 0).all() and forbidden.sum() == pytest.approx(2)


def test_chunks_do_not_matter(monkeypatch):
  rng = np.random.default_rng(0)
  texts = [[*rng.integers(2, 30, 20).tolist(), 1] for _ in range(50)]
  whole = sd.NGramDrafter.fit(texts, num_tokens=30, successors=5)
  monkeypatch.setattr(ngram_counts, '_TOKENS_AT_ONCE', 64)
  pieces = sd.NGramDrafter.fit(iter(texts), num_tokens=30, successors=5)
  for name in ('unigram', 'contexts', 'successors', 'counts'):
    np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))
  pairs = collections.Counter(pair for t in texts for pair in zip([0, *t], t))
  most = sorted((-n, b) for (a, b), n in pairs.items() if a == 7)[:5]
  assert list(zip((-whole.counts[7]).tolist(), whole.successors[7].tolist())) == most


@pytest.fixture(scope='module')
def vocabularies(tmp_path_factory):
  folder = tmp_path_factory.mktemp('vocabularies')
  return tiny.vocabulary(folder), tiny.vocabulary(folder, 'andere Zeichen: xyz, 123')


def test_other_tokenizers_are_refused(vocabularies, bigram):
  ours, other = vocabularies
  target = tiny.random_t5(0)
  table = sd.NGramDrafter.fit([ours.encode('ein Haus') + [1]], vocabulary=ours)
  table.check(target.replace(vocabulary=ours))
  with pytest.raises(ValueError, match=f'another tokenizer.*{ours.digest[:8]}.*{other.digest[:8]}'):
    table.check(target.replace(vocabulary=other))
  bigram.check(target.replace(vocabulary=ours))  # not known: sizes alone
  with pytest.raises(ValueError, match='has 7 tokens, the target 135 logits'):
    bigram.check(tiny.random_t5(0, vocab_size=135))


def test_saved_and_loaded(vocabularies, tmp_path):
  table = sd.NGramDrafter.fit([vocabularies[0].encode('ein Haus am Meer')], vocabulary=vocabularies[0])
  table.save(tmp_path / 'table')
  again = sd.NGramDrafter.load(tmp_path / 'table')
  for name in ('unigram', 'contexts', 'successors', 'counts'):
    np.testing.assert_array_equal(getattr(again, name), getattr(table, name))
    assert getattr(again, name).dtype == jnp.int32
  assert (again.order, again.start_id, again.digest) == (2, 0, vocabularies[0].digest)
  one = load_ngram(tmp_path / 'table', order=1)
  np.testing.assert_array_equal(
      one.logits(jnp.array([3])), sd.NGramDrafter.fit(
          [vocabularies[0].encode('ein Haus am Meer')], vocabulary=vocabularies[0], order=1).logits(jnp.array([3])))
  one.save(tmp_path / 'unigram')
  with pytest.raises(ValueError, match='unigram table .*not one of order 2'):
    load_ngram(tmp_path / 'unigram', order=2)
  with pytest.raises(ValueError, match='exists already'):
    table.save(tmp_path / 'table')


def test_files_that_are_not_there_or_torn(bigram, tmp_path):
  with pytest.raises(ValueError, match='No n-gram table at .*none'):
    sd.NGramDrafter.load(tmp_path / 'none')
  with pytest.raises(FileNotFoundError, match='embedded:ende/bigram'):
    sd.NGramDrafter.load('embedded:ende/trigram')
  bigram.save(tmp_path / 'table')
  whole = (tmp_path / 'table' / 'counts.npz').read_bytes()
  for torn in (b'', whole[:50], whole[:-30]):
    (tmp_path / 'table' / 'counts.npz').write_bytes(torn)
    with pytest.raises(ValueError, match='table is damaged|is damaged') as error:
      sd.NGramDrafter.load(tmp_path / 'table')
    assert '\n' not in str(error.value)


@pytest.mark.parametrize('order, name', [(1, 'unigram table (5000 tokens)'),
                                         (2, 'bigram table (5000 tokens, 32 successors)')])
def test_shipped_tables(order, name):
  table = sd.NGramDrafter.load(f'embedded:ende/{"unigram" if order == 1 else "bigram"}')
  assert table.name == name and table.order == order
  assert table.digest == sd.Vocabulary('embedded:ende/spiece.model').digest


@pytest.mark.parametrize('texts, options, words', [
    ([], {}, 'no texts to count'),
    ([[2, 1], [2, 9, 1]], {}, 'Text 1 has ids 1 to 9, the table 7 tokens'),
    (TEXTS, {'order': 3}, 'order is 3'),
    (TEXTS, {'successors': 0}, 'successors is 0'),
    (TEXTS, {'num_tokens': None}, 'fit needs the vocabulary'),
])
def test_bad_input_is_named(texts, options, words):
  with pytest.raises(ValueError, match=words):
    sd.NGramDrafter.fit(texts, **{'num_tokens': SIZE, **options})
