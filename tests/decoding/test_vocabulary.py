"""Padding rows of the logits are never decoded; tables of other sizes work together."""

import chisquare
import numpy as np
import pytest
import reference
import tiny
import toy

import specdec_jax as sd

ROWS, LENGTH, PIECES = 20_000, 5, 4


def distribution_p_value(target, draft, **options):
  r = sd.speculative_decode(target, sd.ModelDrafter(draft), toy.sources(ROWS), gamma=3,
                            max_decode_len=LENGTH, **options)
  distribution = reference.text_distribution(target, 0, LENGTH, options.get('sampling', sd.Sampling()))
  return chisquare.texts(r.tokens, r.lengths, distribution), r


def padded(seed, rows):
  """A toy of `rows` logits whose padding rows (from PIECES on) are the likeliest."""
  model = toy.random_toy(seed, vocab_size=rows, num_pieces=PIECES)
  return model.replace(params=model.params.at[..., PIECES:].add(3.0))


@pytest.mark.parametrize('sampling', [sd.Sampling(), sd.Sampling(top_k=2)], ids=str)
def test_distribution_is_conditioned_on_real_ids(sampling):
  p_value, r = distribution_p_value(padded(0, 6), padded(1, 6), sampling=sampling)
  assert p_value > chisquare.ACCEPT
  assert r.tokens.max() < PIECES
  assert r.stats.acceptance_rate > 0.3  # the draft is masked too


@pytest.mark.parametrize('rows', [4, pytest.param(8, marks=pytest.mark.long)])
def test_draft_of_another_size(rows):
  p_value, r = distribution_p_value(padded(0, 6), padded(1, rows))
  assert p_value > chisquare.ACCEPT
  assert r.stats.acceptance_rate > 0.3


def test_draft_without_some_of_the_ids():
  """Ids that only the target has are still decoded, by rejection."""
  target = toy.random_toy(0, vocab_size=5)
  p_value, r = distribution_p_value(target, toy.random_toy(1, vocab_size=3))
  assert p_value > chisquare.ACCEPT
  assert {3, 4} <= set(r.tokens.ravel())


def test_without_a_vocabulary_nothing_is_masked():
  target = padded(0, 6)
  target = target.replace(config=toy.config(6))
  p_value, r = distribution_p_value(target, padded(1, 6))
  assert p_value > chisquare.ACCEPT
  assert r.tokens.max() == 5


@pytest.mark.parametrize('sampling', [
    pytest.param(sd.Sampling(temperature=0), marks=pytest.mark.long), sd.Sampling(temperature=2.0)], ids=str)
def test_t5_never_decodes_padding_rows(sampling):
  def boosted(seed):
    model = tiny.random_t5(seed)
    params = {**model.params, 'decoder': {**model.params['decoder'], 'logits_dense': {
        'kernel': model.params['decoder']['logits_dense']['kernel'].at[:, tiny.PIECES:].mul(20)}}}
    return model.replace(params=params)

  target, tokens = boosted(0), tiny.inputs(8)
  r = sd.speculative_decode(target, sd.ModelDrafter(boosted(1)), tokens, gamma=3, sampling=sampling,
                            max_decode_len=8)
  assert r.tokens.max() < tiny.PIECES
  raw = np.asarray(target.logits(tokens, np.pad(r.tokens, ((0, 0), (1, 0)))))
  assert (raw.argmax(-1) >= tiny.PIECES).mean() > 0.2  # they would have been
