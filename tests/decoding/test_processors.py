"""Logits processors in a decode: exact distributions, counted a token at a time in target and draft alike."""

import chisquare
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from enumerated import DRAFTS, TARGET, check

import specdec_jax as sd
from specdec_jax import standardizer as distributions
from specdec_jax.logits_processors import ForbiddenTokens, MinimumLength, RepetitionPenalty


def repetition(penalty):
  def apply(logits, tokens):
    seen = np.isin(np.arange(len(logits)), tokens)
    return np.where(seen, np.where(logits > 0, logits / penalty, logits * penalty), logits)
  return apply


def minimum(length):
  def apply(logits, tokens):
    masked = np.array(logits)
    if len(tokens) - 1 < length:
      masked[toy.EOS] = -np.inf
    return masked
  return apply


def forbidden(token):
  def apply(logits, tokens):
    return np.where(np.arange(len(logits)) == token, -np.inf, logits)
  return apply


CASES = {
    'repetition': ((RepetitionPenalty(4.0),), (repetition(4.0),)),
    'minimum length': ((MinimumLength(3),), (minimum(3),)),
    'all': ((ForbiddenTokens([2]), RepetitionPenalty(0.3), MinimumLength(2)),
            (forbidden(2), repetition(0.3), minimum(2))),
}


@pytest.mark.parametrize('case', [
    pytest.param(case, marks=() if case == 'all' else pytest.mark.long) for case in CASES])
def test_distribution_is_the_processed_target(case):
  ours, plain = CASES[case]
  for kind in ('another', 'itself'):
    p_value, r = check(TARGET, DRAFTS[kind], gamma=3, processors=ours,
                       reference_processors=plain)
    assert p_value > chisquare.ACCEPT
    if kind == 'itself':
      assert r.stats.acceptance_rate == 1.0
  without, _ = check(TARGET, DRAFTS['another'], gamma=3, reference_processors=plain)
  assert without < chisquare.REJECT


def test_minimum_length_counts_tokens_not_iterations():
  eager = toy.random_toy(0, eos=3.0)
  for gamma, draft in ((3, eager), (3, toy.random_toy(1)), (1, eager)):
    r = sd.speculative_decode(eager, sd.ModelDrafter(draft), toy.sources(2000), gamma=gamma,
                              max_decode_len=8, logits_processors=[MinimumLength(4)])
    assert r.lengths.min() == 5  # four tokens, then EOS
    assert (r.lengths == 5).mean() > 0.5


def test_processors_once_a_block_are_rejected(monkeypatch):
  every = distributions._at_every_position
  monkeypatch.setattr(distributions, '_at_every_position', lambda processor, logits, history, lengths, *others:
                      every(processor, logits, history, jnp.zeros_like(lengths) + lengths[:, :1], *others))
  p_value, _ = check(TARGET, DRAFTS['another'], gamma=3, processors=(RepetitionPenalty(5.0),),
                     reference_processors=(repetition(5.0),))
  assert p_value < chisquare.REJECT


def test_greedy_text_with_processors_equals_the_baseline():
  target, tokens = toy.random_toy(3, vocab_size=6), toy.sources(2)
  options = {'sampling': sd.Sampling(temperature=0), 'max_decode_len': 10,
             'logits_processors': [RepetitionPenalty(3.0), MinimumLength(6)]}
  base = sd.autoregressive_decode(target, tokens, **options)
  assert base.lengths.min() > 6
  for seed in (3, 4, 5):
    r = sd.speculative_decode(target, sd.ModelDrafter(toy.random_toy(seed, vocab_size=6)), tokens,
                              gamma=3, **options)
    np.testing.assert_array_equal(r.tokens, base.tokens)
