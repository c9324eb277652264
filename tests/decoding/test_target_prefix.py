"""Texts that begin with given tokens: what follows has the target's distribution after them, greedy or sampled."""

import chisquare
import numpy as np
import pytest
import reference
import tiny
import tiny_lm
import toy

import specdec_jax as sd
from specdec_jax.errors import SettingError

PREFIXES = [(3,), (), (2, 0, 3)]  # one holds id 0, the padding of the others
GIVEN = np.array([[*p, 0, 0, 0][:3] for p in PREFIXES])
LENGTHS = np.array([len(p) for p in PREFIXES])
TREE = sd.Tree((-1, -1, 0, 0, 2))
MODELS = tiny.random_t5(0), tiny.random_t5(1)


@pytest.mark.parametrize(('shape', 'sampling'), [
    pytest.param(None, sd.Sampling(), marks=pytest.mark.long), (3, sd.Sampling(temperature=0.7, top_k=3)),
    (TREE, sd.Sampling())])
def test_what_follows_has_the_target_s_distribution(shape, sampling):
  target, length, rows = toy.random_toy(0), 4, 9_000
  tile = lambda x: np.concatenate([x] * rows)
  common = dict(sampling=sampling, max_decode_len=length, target_prefix=tile(GIVEN),
                target_prefix_lengths=tile(LENGTHS))
  inputs = toy.sources(rows * len(GIVEN))
  r = (sd.autoregressive_decode(target, inputs, **common) if shape is None else
       sd.speculative_decode(target, sd.ModelDrafter(toy.random_toy(1)), inputs, tree=shape, **common))
  for i, prefix in enumerate(PREFIXES):
    law = reference.text_distribution(target, 0, length, sampling, given=(0, *prefix))
    other = reference.text_distribution(target, 0, length, sampling, given=(0, *PREFIXES[i - 1]))
    found = r.tokens[i::3], r.lengths[i::3]
    assert chisquare.texts(*found, law) > chisquare.ACCEPT
    assert chisquare.texts(*found, other) < chisquare.REJECT


@pytest.mark.parametrize('shape', [pytest.param(4, marks=pytest.mark.long), TREE])
def test_greedy_text_goes_on_as_it_would_have(shape):
  """The target's own greedy text, cut anywhere and given, is continued by its rest."""
  target, draft = MODELS
  tokens = tiny.inputs(5)
  whole = sd.autoregressive_decode(target, tokens, sampling=sd.Sampling(temperature=0.0), max_decode_len=12)
  cuts = np.minimum([0, 1, 3, 5, 7], whole.lengths - 1)
  r = sd.speculative_decode(target, draft, tokens, tree=shape, sampling=sd.Sampling(temperature=0.0),
                            max_decode_len=12, target_prefix=whole.tokens, target_prefix_lengths=cuts)
  together = np.zeros((5, 24), np.int32)
  for row, cut in enumerate(cuts):
    rest = whole.tokens[row, cut:whole.lengths[row]]
    np.testing.assert_array_equal(r.tokens[row, :len(rest)], rest)
    together[row, :cut], together[row, cut:cut + 12] = whole.tokens[row, :cut], r.tokens[row]
  scores = sd.score(target, tokens, together, cuts + r.lengths, per_token=True)
  np.testing.assert_allclose(np.where(np.arange(24) < cuts[:, None], 0, scores).sum(1), r.scores, atol=1e-3)


def test_a_row_s_prefix_concerns_it_alone():
  target, draft = MODELS
  tokens, prefix = tiny.inputs(3), np.array([[5, 6, 7, 8], [9, 0, 0, 0], [3, 3, 3, 0]])
  run = lambda rows, width: sd.speculative_decode(
      target, draft, tokens[rows], gamma=3, max_decode_len=6, ids=rows, target_prefix=prefix[rows][:, :width])
  together = run(np.arange(3), 4)
  for row, width in ((0, 4), (1, 1), (2, 3)):
    alone = run(np.array([row]), width)
    np.testing.assert_array_equal(alone.tokens[0], together.tokens[row])
    np.testing.assert_array_equal(alone.stats.target_calls[0], together.stats.target_calls[row])


def test_a_prefix_is_like_a_decoder_only_model_s_prompt():
  """MinimumLength counts what is generated, and the budget too."""
  target = MODELS[0]
  minimum = sd.logits_processors.MinimumLength(6)
  r = sd.speculative_decode(target, MODELS[1], tiny.inputs(2), gamma=2, max_decode_len=6, logits_processors=(minimum,),
                            target_prefix=np.full((2, 5), 3))
  np.testing.assert_array_equal(r.lengths, 6)


@pytest.mark.parametrize(('changes', 'message'), [
    ({'target_prefix': [5, 6]}, 'target_prefix must be integers'),
    ({'target_prefix': [[5.0]]}, 'target_prefix must be integers'),
    ({'target_prefix': [[5], [6]]}, 'target_prefix has 2 rows, tokens 1'),
    ({'target_prefix': [[24]]}, r'target_prefix\[0, 0\] is 24'),
    ({'target_prefix': [[5, 1, 6]]}, r'target_prefix\[0, 1\] is 1, which ends a text'),
    ({'target_prefix': [[5]], 'target_prefix_lengths': [2]}, 'target_prefix_lengths go from 2 to 2; they must be 0 to'),
    ({'target_prefix': [[5]], 'target_prefix_lengths': [1, 1]}, r'target_prefix_lengths must be integers of shape'),
    ({'target_prefix_lengths': [1]}, 'target_prefix_lengths are given without a target_prefix')])
def test_wrong_arguments(changes, message):
  with pytest.raises(SettingError, match=message):
    sd.autoregressive_decode(MODELS[0], [[5, 1]], **changes)


def test_eos_after_a_prefix_s_end_does_not_count():
  r = sd.autoregressive_decode(MODELS[0], [[5, 1]], max_decode_len=3, target_prefix=[[5, 1]], target_prefix_lengths=[1])
  assert r.lengths[0] > 0


def test_a_decoder_only_model_has_prompts(tmp_path):
  model = tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path))
  with pytest.raises(SettingError, match='target_prefix is of models with an encoder'):
    sd.autoregressive_decode(model, [[5]], max_decode_len=4, target_prefix=[[5]])
