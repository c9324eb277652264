"""Scores of given texts: by the raw logits, by the decodes' own scores, and over all texts of a small model."""

import itertools

import numpy as np
import pytest
import tiny
import tiny_lm
import toy
from scipy.special import log_softmax

import specdec_jax as sd
from specdec_jax.errors import SettingError

CLOSE = dict(rtol=1e-4, atol=1e-4)


@pytest.fixture(scope='module')
def t5():
  return tiny.random_t5(0, num_decoder_layers=2)


@pytest.fixture(scope='module')
def lm(tmp_path_factory):
  return tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path_factory.mktemp('lm')))


def by_logits(model, row, start, text):
  """float64 [T], one text's tokens by a teacher-forced pass, padding rows left out."""
  given = np.concatenate([start, text])[None]
  logits = model.logits(decoder_tokens=given) if row is None else model.logits(row[None], given)
  log_probs = log_softmax(np.asarray(logits, np.float64)[0, :, :model.num_tokens], axis=-1)
  return log_probs[np.arange(len(start) - 1, given.shape[1] - 1), text]


def texts(seed, *shape):
  return np.random.default_rng(seed).integers(2, tiny.PIECES, size=shape)


def test_a_token_s_score_is_its_log_probability(t5):
  tokens, targets = tiny.inputs(3), texts(1, 3, 5)
  expected = [by_logits(t5, row, [0], text) for row, text in zip(tokens, targets)]
  np.testing.assert_allclose(sd.score(t5, tokens, targets, per_token=True), expected, **CLOSE)
  found = sd.score(t5, tokens, targets)
  assert found.dtype == np.float32
  np.testing.assert_allclose(found, np.sum(expected, 1), **CLOSE)


def test_several_texts_of_an_input_are_scored_each_for_itself(t5):
  tokens, targets = tiny.inputs(2), texts(2, 2, 3, 5)
  together = sd.score(t5, tokens, targets)
  assert together.shape == (2, 3)
  for i in range(3):
    np.testing.assert_allclose(together[:, i], sd.score(t5, tokens, targets[:, i]), **CLOSE)
  assert sd.score(t5, tokens, targets, per_token=True).shape == (2, 3, 5)


def test_the_encoder_runs_once_an_input(t5):
  lengths = []

  class Counting(sd.Model):
    def prefill(self, tokens, cache_length):
      lengths.append(len(tokens))
      return super().prefill(tokens, cache_length)

  model = Counting(params=t5.params, config=t5.config)
  sd.score(model, tiny.inputs(2), texts(3, 2, 4, 5))
  assert lengths == [2]


def test_a_prompt_s_texts(lm):
  prompts, lengths = np.array([[3, 4, 5, 6], [7, 0, 9, 9]]), np.array([4, 2])
  targets = np.array([[[8, 0, 3], [5, 5, 0]], [[0, 0, 0], [1, 2, 3]]])
  ends = np.array([[3, 3], [2, 1]])
  found = sd.score(lm, prompts, targets, target_lengths=ends, lengths=lengths, per_token=True)
  for row, text in itertools.product(range(2), range(2)):
    end = ends[row, text]
    expected = by_logits(lm, None, prompts[row, :lengths[row]], targets[row, text, :end])
    np.testing.assert_allclose(found[row, text, :end], expected, **CLOSE)
    assert not found[row, text, end:].any()


@pytest.mark.parametrize('temperature', [pytest.param(0.0, marks=pytest.mark.long), 1.0])
def test_scores_of_a_decode_are_these(t5, lm, temperature):
  sampling = sd.Sampling(temperature=temperature)
  tokens = tiny.inputs(4)
  result = sd.speculative_decode(t5, sd.ModelDrafter(t5), tokens, gamma=2, sampling=sampling, max_decode_len=8)
  np.testing.assert_allclose(sd.score(t5, tokens, result.tokens, result.lengths), result.scores, **CLOSE)
  prompts = np.array([[3, 4, 5], [7, 9, 9]])
  result = sd.autoregressive_decode(lm, prompts, sampling=sampling, max_decode_len=8, lengths=[3, 1])
  np.testing.assert_allclose(sd.score(lm, prompts, result.tokens, result.lengths, lengths=[3, 1]), result.scores,
                             **CLOSE)


def test_all_texts_of_a_model_together_have_probability_one():
  model = toy.random_toy(0, eos=0.5)
  vocab, length = model.config.vocab_size, 3
  others = [t for t in range(vocab) if t != toy.EOS]
  ended = [(*text, toy.EOS) for n in range(length) for text in itertools.product(others, repeat=n)]
  cut = list(itertools.product(others, repeat=length))
  rows = np.array([text + (0,) * (length - len(text)) for text in ended + cut])
  ends = np.array([len(text) for text in ended + cut])
  found = sd.score(model, toy.sources(2), np.stack([rows, rows]), np.stack([ends, ends]))
  np.testing.assert_allclose(np.exp(found.astype(np.float64)).sum(1), 1, rtol=1e-5)


def test_a_text_ends_after_its_last_token_that_is_not_zero(t5):
  tokens = tiny.inputs(1)
  inside, whole = [[5, 0, 7, 0, 0]], [[5, 0, 7]]
  np.testing.assert_allclose(sd.score(t5, tokens, inside), sd.score(t5, tokens, whole), **CLOSE)
  assert sd.score(t5, tokens, [[5, 0, 7, 0, 0]], [5])[0] < sd.score(t5, tokens, inside)[0]
  assert sd.score(t5, tokens, [[0, 0]])[0] == 0


def test_padding_and_other_rows_change_nothing(t5):
  tokens, targets = tiny.inputs(3), texts(4, 3, 5)
  alone = [sd.score(t5, tokens[i:i + 1], targets[i:i + 1])[0] for i in range(3)]
  wide = np.pad(tokens, ((0, 0), (0, 11))), np.pad(targets, ((0, 0), (0, 13)))
  np.testing.assert_allclose(sd.score(t5, *wide), alone, **CLOSE)


def test_a_padding_row_has_no_probability(t5):
  found = sd.score(t5, tiny.inputs(1), [[5, tiny.PIECES, 6]], per_token=True)[0]
  assert np.isneginf(found[1]) and np.isfinite(found[[0, 2]]).all()


def test_other_lengths_of_few_compile_nothing(t5):
  from specdec_jax import scoring
  sd.score(t5, tiny.inputs(2), texts(5, 2, 3))
  before = scoring._log_probabilities._cache_size()
  for length in (1, 9, 16):
    sd.score(t5, tiny.inputs(2), texts(5, 2, length))
  assert scoring._log_probabilities._cache_size() == before


@pytest.mark.parametrize(('changes', 'message'), [
    ({'model': 'embedded:ende/target'}, 'target is'),
    ({'tokens': [[99]]}, r'tokens\[0, 0\] is 99'),
    ({'targets': [5, 6]}, 'targets must be integers'),
    ({'targets': [[0.5]]}, 'targets must be integers'),
    ({'targets': [[5], [6]]}, 'targets has 2 rows, tokens 1'),
    ({'targets': [[5, 24]]}, r'targets\[0, 1\] is 24'),
    ({'targets': np.zeros((1, 0), int)}, 'targets is empty'),
    ({'targets': np.zeros((1, 0, 3), int)}, 'targets is empty'),
    ({'target_lengths': [4]}, 'target_lengths go from 4 to 4; they must be 0 to 3'),
    ({'target_lengths': [-1]}, 'target_lengths go from -1'),
    ({'target_lengths': [1, 2]}, r'target_lengths must be integers of shape \[1\]'),
    ({'lengths': [1]}, 'this model has an encoder'),
    ({'per_token': 1}, 'per_token is 1; it must be True or False')])
def test_wrong_arguments(t5, changes, message):
  arguments = {'model': t5, 'tokens': [[5, 1]], 'targets': [[5, 6, 1]], **changes}
  with pytest.raises(SettingError, match=message):
    sd.score(**arguments)


def test_a_prompt_and_a_text_that_exceed_the_positions(lm):
  with pytest.raises(SettingError, match='positions'):
    sd.score(lm, np.full((1, 20), 3), np.full((1, 20), 4))
