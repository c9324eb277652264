"""N-gram tables: counts and distributions by hand, files, and tokenizers that do not fit."""

import collections

import jax.numpy as jnp
import numpy as np
import pytest
import tiny

import specdec_jax as sd
from specdec_jax import logits_processors
from specdec_jax.drafters import ngram_counts
from specdec_jax.standardizer import Standardizer

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
  distribution, unigram = np.exp(bigram.logits(jnp.array([2, 5, 99]))), smooth_unigram()
  wanted = np.where(np.isin(np.arange(SIZE), [3, 4]), 0, unigram)
  wanted *= 0.25 / wanted.sum()
  wanted[[3, 4]] = 2.5 / 4, 0.5 / 4
  np.testing.assert_allclose(distribution[0], wanted, rtol=1e-5)
  np.testing.assert_allclose(distribution[1:], [unigram, unigram], rtol=1e-5)  # never seen, and outside the table
  one = sd.NGramDrafter.fit(TEXTS, num_tokens=SIZE, order=1)
  np.testing.assert_allclose(np.exp(one.logits(jnp.array([2]))), [unigram], rtol=1e-5)
  assert one.successors.shape == (SIZE, 0)


def test_what_is_not_kept_goes_to_the_unigram_distribution():
  cut = sd.NGramDrafter.fit(TEXTS, num_tokens=SIZE, successors=1)
  distribution = np.exp(cut.logits(jnp.array([3])))[0]
  assert distribution[1] == pytest.approx(1.5 / 4)
  rest = np.delete(smooth_unigram(), 1)
  np.testing.assert_allclose(np.delete(distribution, 1), rest * (2.5 / 4) / rest.sum(), rtol=1e-5)


def test_sampling_mask_and_processors_apply(bigram):
  text, prefix_end = np.array([[0, 2, 4]], np.int32), np.zeros(1, np.int32)

  def distributions(sampling=sd.Sampling(), **options):
    standardizer = Standardizer.of(sampling, **{'num_rows': 9, 'num_tokens': SIZE, **options})
    return np.asarray(bigram.distributions(None, text, prefix_end, standardizer))[0]

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
  table.check(target.replace(vocabulary=ours.with_sentinels(1)))  # the same ids as far as the table counts
  bigram.check(target.replace(vocabulary=ours))  # not known: sizes alone
  with pytest.raises(ValueError, match='has 7 tokens, the target 135 logits'):
    bigram.check(tiny.random_t5(0, vocab_size=135))


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
