"""Caches, rewinds and ends: faults that only lower the acceptance, or show at the edges."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import toy

import specdec_jax as sd
from specdec_jax.logits_processors import ForbiddenTokens
from specdec_jax.results import Status

GREEDY = sd.Sampling(temperature=0)
LONG = 300
NO_EOS = (ForbiddenTokens((1,)),)


def assert_always_accepted(model, tokens, gamma, sampling, **options):
  r = sd.speculative_decode(model, sd.ModelDrafter(model), tokens, gamma=gamma, sampling=sampling,
                            max_decode_len=LONG, **options)
  assert (r.lengths == LONG).all() and (r.status == Status.LENGTH).all()
  assert r.stats.acceptance_rate == 1.0
  assert (r.stats.target_calls == math.ceil(LONG / (gamma + 1))).all()
  assert r.stats.tokens_per_call == LONG / math.ceil(LONG / (gamma + 1))
  return r


@pytest.mark.parametrize('gamma, sampling', [
    (1, sd.Sampling()), pytest.param(4, sd.Sampling(temperature=1.7), marks=pytest.mark.long),
    (7, sd.Sampling(top_k=3, top_p=0.9)), (5, GREEDY)], ids=str)
def test_toy_draft_equal_to_the_target_is_accepted_always(gamma, sampling):
  model = toy.random_toy(0, eos=-60.0)
  r = assert_always_accepted(model, toy.sources(20), gamma, sampling)
  assert len({row.tobytes() for row in r.tokens}) == (1 if sampling.greedy else 20)


@pytest.mark.parametrize('gamma, sampling', [
    pytest.param(2, GREEDY, marks=pytest.mark.long), (7, sd.Sampling()),
    pytest.param(1, sd.Sampling(), marks=pytest.mark.long), pytest.param(3, sd.Sampling(), marks=pytest.mark.long),
    pytest.param(5, sd.Sampling(temperature=0.7), marks=pytest.mark.long),
    pytest.param(8, GREEDY, marks=pytest.mark.long)], ids=str)
def test_t5_draft_equal_to_the_target_is_accepted_always(gamma, sampling):
  assert_always_accepted(tiny.random_t5(0), tiny.inputs(3), gamma, sampling, logits_processors=NO_EOS)


class ForgetfulToy(toy.Toy):
  """Takes only the last token of a pair, as if the last accepted draft token were never fed."""

  def write(self, fed, tokens, positions):
    first_of_pair = (jnp.arange(fed.shape[1]) == positions[:, None]) & (tokens.shape[1] == 2)
    missed = first_of_pair & (positions[:, None] > 0)
    return jnp.where(missed, fed, super().write(fed, tokens, positions))


def test_a_missing_draft_entry_would_show_in_the_acceptance():
  model = toy.random_toy(0, eos=-60.0)
  forgetful = ForgetfulToy(params=model.params, config=model.config)
  r = sd.speculative_decode(model, sd.ModelDrafter(forgetful), toy.sources(20), gamma=4,
                            sampling=sd.Sampling(temperature=1.7), max_decode_len=LONG)
  assert r.stats.acceptance_rate < 0.9


TOYS = toy.random_toy(0, eos=-2.0), toy.random_toy(1), toy.sources(40)
T5S = tiny.random_t5(0), tiny.random_t5(1), tiny.inputs(8)


@pytest.mark.parametrize('models, length', [
    (TOYS, 1), pytest.param(TOYS, 2, marks=pytest.mark.long), (TOYS, 6),
    pytest.param(T5S, 2, marks=pytest.mark.long)],
                         ids=['toy-1', 'toy-2', 'toy-6', 't5-2'])
def test_a_shorter_budget_gives_the_start_of_the_same_text(models, length):
  """The last block writes at the very end of every buffer; nothing may move or spill."""
  target, draft, tokens = models
  decode = lambda n: sd.speculative_decode(target, sd.ModelDrafter(draft), tokens, gamma=4,
                                           max_decode_len=n)
  short, long = decode(length), decode(9)
  assert short.tokens.shape == (len(tokens), length)
  np.testing.assert_array_equal(short.tokens, long.tokens[:, :length])
  np.testing.assert_array_equal(short.lengths, np.minimum(long.lengths, length))
  ended = long.lengths <= length
  np.testing.assert_array_equal(
      short.status, np.where(ended & (long.status == Status.EOS), Status.EOS, Status.LENGTH))
  assert (short.stats.target_calls <= length).all()
