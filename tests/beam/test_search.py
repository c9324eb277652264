"""The plain search: what a search by lists finds, row by row; arguments; the program."""

import jax
import numpy as np
import pytest
import tiny
import toy
import toy_beams
from hypothesis import example, given, strategies as st
from programs import equations, only_loop

import specdec_jax as sd
from specdec_jax.beam import search as beam

# The shapes of test_speculative_beam.py, whose programs these are too.
SOURCES = np.concatenate([toy.sources(1, 0), toy.sources(1, 1), toy.sources(1, 1)])
WIDTH, LENGTH = 4, 9


@given(seed=st.integers(0, 10 ** 6), eos=st.floats(-3, 4), alpha=st.sampled_from([0.0, 0.6, 2.0]))
@example(seed=0, eos=-30.0, alpha=0.6)  # nothing ends
@example(seed=0, eos=30.0, alpha=0.6)  # everything does
def test_a_search_by_lists_finds_the_same(seed, eos, alpha):
  model = toy_beams.random_toy(seed, eos=eos)
  r = sd.beam_search(model, SOURCES, WIDTH, alpha, LENGTH)
  for source in range(2):
    wanted = toy_beams.search(
        model, lambda text, source=source: model.next_logits(source, text), WIDTH, alpha, LENGTH)
    empty = WIDTH - len(wanted)
    assert (r.scores[source, :empty] == -1e7).all() and not r.tokens[source, :empty].any() and (
        not r.lengths[source, :empty].any())
    for beam_at, (score, text) in enumerate(wanted, empty):
      assert r.tokens[source, beam_at].tolist() == [*text, *[0] * (LENGTH - len(text))]
      assert r.lengths[source, beam_at] == len(text)
      assert r.scores[source, beam_at] == pytest.approx(score, abs=1e-4)


def test_fewer_texts_than_beams():
  """Two real tokens and four beams: slots stay empty, and nothing is found twice."""
  model = toy_beams.random_toy(1, num_pieces=2)
  r = sd.beam_search(model, SOURCES, 4, 0.6, 2)
  for source in range(2):
    wanted = toy_beams.search(model, lambda text, source=source: model.next_logits(source, text)[:2], 4, 0.6, 2)
    assert len(wanted) == 2 and (r.scores[source, :2] == -1e7).all()
    np.testing.assert_allclose(r.scores[source, 2:], [s for s, _ in wanted], atol=1e-5)


def test_fewer_texts_are_returned_than_searched():
  model = toy_beams.random_toy(3)
  every, two = (sd.beam_search(model, SOURCES, WIDTH, 0.6, LENGTH, num_return=n) for n in (None, 2))
  for name in ('tokens', 'lengths', 'scores'):
    np.testing.assert_array_equal(getattr(two, name), getattr(every, name)[:, -2:])
  for wrong in (0, WIDTH + 1):
    with pytest.raises(ValueError, match=f'num_return is {wrong}; it must be a whole number from 1 to 4'):
      sd.beam_search(model, SOURCES, WIDTH, 0.6, LENGTH, num_return=wrong)


def test_one_beam_that_meets_no_eos_is_greedy():
  model = toy_beams.random_toy(5, eos=-30.0)
  r = sd.beam_search(model, SOURCES, 1, 0.6, 6)
  for source in range(2):
    text = [0]
    for _ in range(6):
      text.append(int(np.argmax(model.next_logits(source, text))))
    assert r.tokens[source, 0].tolist() == text[1:]
  assert r.status.tolist() == [sd.Status.LENGTH] * 3


TARGET = tiny.random_t5(15, mlp_dim=40)


def test_a_row_does_not_depend_on_the_others():
  """Rows stop by themselves, padding ids are never decoded."""
  tokens = tiny.inputs(5)
  together = sd.beam_search(TARGET, tokens, 3, 0.6, 12)
  assert len(set(together.stats.steps.tolist())) > 1
  assert together.tokens.max() < tiny.PIECES
  for row in range(5):
    alone = sd.beam_search(TARGET, np.tile(tokens[row], (5, 1)), 3, 0.6, 12)
    np.testing.assert_array_equal(alone.tokens, np.tile(together.tokens[row], (5, 1, 1)))
    np.testing.assert_allclose(alone.scores[row], together.scores[row], atol=1e-4)
    assert alone.stats.steps[row] == together.stats.steps[row]
  np.testing.assert_array_equal(together.stats.target_calls, together.stats.steps)


def test_scores_are_penalised_log_probabilities():
  tokens = tiny.inputs(5)
  r = sd.beam_search(TARGET, tokens, 3, 0.6, 12)
  best = r.tokens[:, -1]
  before = np.concatenate([np.zeros((5, 1), np.int32), best[:, :-1]], axis=1)
  logits = np.asarray(TARGET.logits(tokens, before))[..., :tiny.PIECES]
  log_probs = np.take_along_axis(jax.nn.log_softmax(logits), best[..., None], -1)[..., 0]
  ended = (best == 1).any(1)
  lengths = np.where(ended, (best == 1).argmax(1) + 1, 12)
  total = np.where(np.arange(12) < lengths[:, None], log_probs, 0).sum(1)
  assert ended.any()
  np.testing.assert_allclose(
      r.scores[:, -1], total / np.where(ended, ((5 + lengths) / 6) ** 0.6, 1), atol=1e-4)


def test_a_row_without_finite_logits_ends_by_itself():
  model = toy_beams.random_toy(0, eos=-2.0)
  clean = sd.beam_search(model, SOURCES, WIDTH, 0.6, LENGTH)
  broken = model.replace(params=model.params.at[0, :, :, :, 0].set(np.nan))
  r = sd.beam_search(broken, SOURCES, WIDTH, 0.6, LENGTH)
  assert r.status[0] == sd.Status.NON_FINITE and r.status[1] != sd.Status.NON_FINITE
  assert np.isfinite(r.scores).all() and r.stats.target_calls[0] == r.stats.steps[0] + 1
  np.testing.assert_array_equal(r.tokens[1], clean.tokens[1])


@pytest.mark.parametrize('options, words', [
    (dict(num_beams=0), 'num_beams is 0; it must be a whole number of at least 1'),
    (dict(num_beams=25), 'num_beams is 25, but the model has only 24 tokens'),
    (dict(alpha=-0.1), 'alpha is -0.1; it must be at least 0'),
    (dict(alpha=float('nan')), 'alpha is nan'),
    (dict(max_decode_len=1.5), 'max_decode_len is 1.5'),
    (dict(gamma=2, draft_beams=4), 'draft_beams = 4 and gamma = 2 would be ignored'),
    (dict(drafter=sd.LookupDrafter()), 'drafter is a LookupDrafter, which has no beams'),
    (dict(drafter=sd.ModelDrafter(TARGET), gamma=0), 'gamma is 0'),
    (dict(drafter=sd.ModelDrafter(TARGET), draft_beams=3),
     r'draft_beams is 3; it must be a whole number of at least 4 \(num_beams\)'),
    (dict(drafter=sd.ModelDrafter(TARGET), draft_beams=25), 'draft_beams is 25, but the model has'),
])
def test_bad_arguments_are_one_line(options, words):
  with pytest.raises(ValueError, match=words) as caught:
    sd.beam_search(TARGET, tiny.inputs(2), **options)
  assert '\n' not in str(caught.value)


def test_the_encoder_stays_outside_and_its_keys_are_not_moved():
  settings = beam.BeamSettings(num_beams=3, max_decode_len=9)
  jaxpr = jax.make_jaxpr(lambda *a: beam.search.__wrapped__(*a, settings=settings))(
      TARGET, None, tiny.inputs(2), np.float32(0.6)).jaxpr
  loop = only_loop(jaxpr)
  body = list(equations(loop.params['body_jaxpr'].jaxpr))
  gathered = [e.invars[0].aval.shape for e in body if e.primitive.name == 'gather']
  own, cross = (6, 2, 10, 8), (6, 2, 7, 8)
  assert gathered.count(own) == 2  # its keys and values
  assert cross not in gathered
  products = [e for e in body if e.primitive.name == 'dot_general']
  assert not [e for e in products if e.outvars[0].aval.shape[:2] == (2, 7)]  # the encoder's
