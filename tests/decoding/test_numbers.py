"""NaN and infinity: a row whose target breaks ends and says so, the others go on; a broken draft costs speed only."""

import chisquare
import numpy as np
import pytest
import reference
import tiny
import toy

import specdec_jax as sd
from specdec_jax.logits_processors import ForbiddenTokens
from specdec_jax.results import Status

LENGTH = 8
SOUND = toy.random_toy(0, eos=-2.0)
DRAFT = toy.random_toy(1)
TOKENS = np.concatenate([toy.sources(20, 0), toy.sources(20, 1)])
AFTER = 3  # for the second source, the distributions after this token are broken


def broken_after(model, value):
  return model.replace(params=model.params.at[1, ..., AFTER, 2].set(value))


def decode(target, draft=DRAFT, **options):
  if draft is None:
    return sd.autoregressive_decode(target, TOKENS, max_decode_len=LENGTH, **options)
  return sd.speculative_decode(target, sd.ModelDrafter(draft), TOKENS, gamma=3, max_decode_len=LENGTH,
                               **options)


def assert_ends_where_broken(got, sound):
  """Rows of the second source end behind their first AFTER; the rest is as if nothing was wrong."""
  for row in range(40):
    text = sound.tokens[row, :sound.lengths[row]].tolist()
    cut = text.index(AFTER) + 1 if row >= 20 and AFTER in text else len(text)
    assert got.tokens[row].tolist() == text[:cut] + [0] * (LENGTH - cut)
    ended_before = cut == len(text)
    assert got.status[row] == (sound.status[row] if ended_before else Status.NON_FINITE)
    assert got.lengths[row] == got.stats.emitted[row] == cut
  assert (got.status[:20] != Status.NON_FINITE).all()
  assert (got.status == Status.NON_FINITE).sum() > 5
  assert np.isfinite(got.scores).all()


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('sampling', [sd.Sampling(), sd.Sampling(temperature=0)], ids=str)
def test_broken_target_ends_the_row_and_no_other(value, sampling):
  assert_ends_where_broken(decode(broken_after(SOUND, value), sampling=sampling),
                           decode(SOUND, sampling=sampling))


def test_broken_target_ends_the_row_of_the_baseline():
  assert_ends_where_broken(decode(broken_after(SOUND, np.nan), None), decode(SOUND, None))


def test_draft_and_target_broken_alike():
  broken = broken_after(SOUND, np.nan)
  got, sound = decode(broken, broken), decode(SOUND, SOUND)
  assert_ends_where_broken(got, sound)


def test_row_that_is_broken_from_the_start_is_empty():
  target = SOUND.replace(params=SOUND.params.at[1].set(np.nan))
  for draft in (DRAFT, None):
    r = decode(target, draft)
    assert (r.status[20:] == Status.NON_FINITE).all() and (r.lengths[20:] == 0).all()
    assert (r.tokens[20:] == 0).all() and (r.scores[20:] == 0).all()
    np.testing.assert_array_equal(r.tokens[:20], decode(SOUND, draft).tokens[:20])


@pytest.mark.parametrize('sampling', [sd.Sampling(), sd.Sampling(temperature=0)], ids=str)
def test_distribution_without_any_token_ends_the_row(sampling):
  r = decode(SOUND, sampling=sampling, logits_processors=[ForbiddenTokens(range(4))])
  assert (r.status == Status.NON_FINITE).all() and (r.lengths == 0).all()


def test_broken_draft_leaves_the_distribution_exact():
  rows, target = 20_000, toy.random_toy(0)
  sound = toy.random_toy(1)
  broken = sound.replace(params=sound.params.at[..., 2:, :].set(np.nan))  # after tokens 2 and 3
  distribution = reference.text_distribution(target, 0, 5, sd.Sampling())
  rates = []
  for draft in (sound, broken, sound.replace(params=sound.params * np.nan)):
    r = sd.speculative_decode(target, sd.ModelDrafter(draft), toy.sources(rows), gamma=3,
                              max_decode_len=5)
    assert chisquare.texts(r.tokens, r.lengths, distribution) > chisquare.ACCEPT
    assert set(r.status) == {Status.EOS, Status.LENGTH}
    rates.append(r.stats.acceptance_rate)
  assert rates[0] > rates[1] > rates[2] == 0


def test_t5_with_an_infinite_weight_ends_rows_without_touching_others():
  """One token breaks the pass it is fed in, drafts included; what was decoded before stands."""
  model, tokens = tiny.random_t5(0), tiny.inputs(8)
  tokens[tokens == 5] = 6
  tokens[3, 0] = 5
  sampling = sd.Sampling(temperature=0)
  run = lambda m: sd.speculative_decode(m, sd.ModelDrafter(tiny.random_t5(1)), tokens, gamma=3,
                                        sampling=sampling, max_decode_len=LENGTH)
  sound = run(model)
  params = {**model.params, 'token_embedder': {
      'embedding': model.params['token_embedder']['embedding'].at[5].set(np.inf)}}
  got = run(model.replace(params=params))
  assert got.status[3] == Status.NON_FINITE and got.lengths[3] == 0
  ended = got.status == Status.NON_FINITE
  assert 0 < ended.sum() < 8
  for row in range(8):
    length = got.lengths[row]
    assert got.tokens[row, :length].tolist() == sound.tokens[row, :length].tolist()
    assert ended[row] or (got.status[row] == sound.status[row] and length == sound.lengths[row])
