"""The decoder-only pair that ships with the package."""

import numpy as np
import pytest

import specdec_jax as sd

PROMPTS = ['Opens a dialog', 'Select']


@pytest.fixture(scope='module')
def pair():
  return sd.load_model('embedded:lm/target'), sd.load_model('embedded:lm/draft')


def test_the_pair_writes_the_targets_text_in_fewer_calls(pair):
  target, draft = pair
  tokens, lengths = target.prompts(PROMPTS)
  given = dict(lengths=lengths, sampling=sd.Sampling(temperature=0.0), max_decode_len=16)
  alone = sd.autoregressive_decode(target, tokens, **given)
  ours = sd.speculative_decode(target, sd.ModelDrafter(draft), tokens, gamma=4, **given)
  np.testing.assert_array_equal(ours.tokens, alone.tokens)
  assert ours.stats.acceptance_rate > 0.5


def test_one_tokenizer_serves_models_and_table(pair):
  target, draft = pair
  table = sd.load_ngram('embedded:lm/bigram')
  table.check(target)
  assert target.vocabulary == draft.vocabulary and table.start_id == target.vocabulary.start[-1]
  assert target.decode([target.vocabulary.encode(PROMPTS[0])]) == PROMPTS[:1]
