"""Several samples of an input: each has the target's distribution, and they do not depend on each other."""

import chisquare
import numpy as np
import pytest
import reference
import tiny
import tiny_lm
import toy
from scipy import stats

import specdec_jax as sd
from specdec_jax.errors import SettingError

TREE = sd.Tree((-1, -1, 0, 0, 2))
MODELS = tiny.random_t5(0), tiny.random_t5(1)


def decode(models, tokens, shape, **options):
  if shape is None:
    return sd.autoregressive_decode(models[0], tokens, **options)
  return sd.speculative_decode(models[0], models[1], tokens, tree=shape, **options)


@pytest.mark.parametrize('shape', [
    None, pytest.param(3, marks=pytest.mark.long), pytest.param(TREE, marks=pytest.mark.long)])
def test_the_first_sample_is_what_one_sample_gives(shape):
  tokens, ids = tiny.inputs(3), np.array([7, 0, 4])
  one = decode(MODELS, tokens, shape, max_decode_len=8, ids=ids)
  several = decode(MODELS, tokens, shape, max_decode_len=8, ids=ids, num_samples=4)
  assert several.tokens.shape == (12, 8)
  np.testing.assert_array_equal(several.tokens[::4], one.tokens)
  np.testing.assert_array_equal(several.stats.target_calls[::4], one.stats.target_calls)
  np.testing.assert_allclose(several.scores[::4], one.scores, atol=1e-4)
  texts = several.tokens.reshape(3, 4, 8)
  assert all(len({tuple(text) for text in row.tolist()}) > 1 for row in texts)


@pytest.mark.long
def test_more_samples_change_none_of_the_others():
  two, four = (decode(MODELS, tiny.inputs(3), TREE, max_decode_len=8, num_samples=n) for n in (2, 4))
  np.testing.assert_array_equal(two.tokens.reshape(3, 2, 8), four.tokens.reshape(3, 4, 8)[:, :2])


def test_samples_after_prompts(tmp_path):
  vocabulary = tiny_lm.vocabulary(tmp_path)
  models = tiny_lm.random_lm(0, vocabulary), tiny_lm.random_lm(1, vocabulary)
  options = dict(lengths=[3, 1], max_decode_len=8)
  tokens = np.array([[3, 4, 5], [7, 0, 0]])
  one, three = (decode(models, tokens, 2, num_samples=n, **options) for n in (1, 3))
  np.testing.assert_array_equal(three.tokens[::3], one.tokens)


def test_each_sample_has_the_target_s_distribution_and_they_are_independent():
  target, draft, length, rows = toy.random_toy(0), toy.random_toy(1), 2, 8_000
  sampling = sd.Sampling(temperature=0.8)
  r = sd.speculative_decode(target, draft, toy.sources(rows), gamma=2, sampling=sampling, max_decode_len=length,
                            num_samples=3)
  law = reference.text_distribution(target, 0, length, sampling)
  for sample in range(3):
    assert chisquare.texts(r.tokens[sample::3], r.lengths[sample::3], law) > chisquare.ACCEPT
  first = r.tokens[:, 0].reshape(rows, 3)
  for a, b in ((0, 1), (0, 2), (1, 2)):
    table = np.zeros((target.config.vocab_size,) * 2)
    np.add.at(table, (first[:, a], first[:, b]), 1)
    assert stats.chi2_contingency(table).pvalue > chisquare.ACCEPT


def test_greedy_samples_are_one_text():
  r = decode(MODELS, tiny.inputs(2), 3, sampling=sd.Sampling(temperature=0.0), max_decode_len=8, num_samples=3)
  np.testing.assert_array_equal(r.tokens, np.repeat(r.tokens[::3], 3, axis=0))


@pytest.mark.long
def test_samples_after_a_target_prefix():
  options = dict(max_decode_len=8, target_prefix=[[5, 6], [7, 0]])
  one, two = (decode(MODELS, tiny.inputs(2), 3, num_samples=n, **options) for n in (1, 2))
  np.testing.assert_array_equal(two.tokens[::2], one.tokens)


def test_the_encoder_s_output_is_kept_once():
  cache = MODELS[0].prefill(tiny.inputs(2), 10)
  several = MODELS[0].repeated(cache, 5)
  assert several['cross'][0]['key'].shape == cache['cross'][0]['key'].shape
  assert several['self'][0]['key'].shape[0] == 10


@pytest.mark.parametrize('value', [0, -1, 1.5, True, '2'])
def test_a_wrong_number(value):
  with pytest.raises(SettingError, match='num_samples is'):
    sd.autoregressive_decode(MODELS[0], [[5, 1]], num_samples=value)
