"""Draft trees with real networks: T5 and GPT-2, weights at random, against plain decoding."""

import families
import numpy as np
import pytest
import tiny

import specdec_jax as sd

TREES = {'full': sd.Tree.full((3, 2)), 'spine': sd.Tree.spine(5, 3), 'uneven': sd.Tree((-1, -1, 0, 0, 1, 2, 5, -1, 5))}
GREEDY, LENGTH = sd.Sampling(temperature=0), 20
T5S = tiny.random_t5(0, num_decoder_layers=2), tiny.random_t5(1)
PER_LAYER = tiny.random_t5(2, num_decoder_layers=2, relative_bias_per_layer=True), tiny.random_t5(1)


PAIRS = {'t5': T5S, 'bias in every layer': PER_LAYER, 'itself': (T5S[0], T5S[0])}
FEW = {('t5', 'full'), ('itself', 'spine'), ('gpt2', 'uneven')}


def crossed(names):
  """(name, tree) of every tree; all but `FEW` of them in the long tests."""
  return [pytest.param(name, tree, marks=() if (name, tree) in FEW else pytest.mark.long)
          for name in names for tree in TREES]


@pytest.mark.parametrize('name, tree', crossed(PAIRS))
def test_t5_says_what_it_says_alone(name, tree):
  target, draft = PAIRS[name]
  tokens = tiny.inputs(5)
  base = sd.autoregressive_decode(target, tokens, sampling=GREEDY, max_decode_len=LENGTH)
  r = sd.speculative_decode(target, draft, tokens, tree=TREES[tree], sampling=GREEDY, max_decode_len=LENGTH)
  tiny.assert_same_text(target, tokens, r.tokens, base.tokens)
  np.testing.assert_allclose(r.scores, base.scores, atol=1e-3)
  if draft is target:  # all accepted, over the whole text: no entry of either cache is missing or stale
    calls = -(-r.lengths // (TREES[tree].depth + 1))
    np.testing.assert_array_equal(r.stats.target_calls, calls)


@pytest.mark.parametrize('name, tree', crossed(['gpt2']))
def test_gpt2_says_what_it_says_alone(name, tree):
  del name
  target, draft = (families.random_gpt2(seed, num_layers=2 - seed, max_positions=40) for seed in (0, 1))
  tokens, lengths = np.random.default_rng(0).integers(2, 20, (4, 6)), np.array([6, 1, 3, 5])
  options = dict(lengths=lengths, sampling=GREEDY, max_decode_len=LENGTH)
  base = sd.autoregressive_decode(target, tokens, **options)
  for drafter in (draft, target):
    r = sd.speculative_decode(target, drafter, tokens, tree=TREES[tree], **options)
    np.testing.assert_array_equal(r.tokens, base.tokens)
  calls = -(-r.lengths // (TREES[tree].depth + 1))
  np.testing.assert_array_equal(r.stats.target_calls, calls)
