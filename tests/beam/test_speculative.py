"""The speculative search returns what the plain one does, in fewer calls of the target."""

import jax
import numpy as np
import pytest
import tiny
import toy
import toy_beams
from hypothesis import example, given, settings, strategies as st
from programs import equations, only_loop

import specdec_jax as sd
from specdec_jax.beam import search as beam

SOURCES = np.concatenate([toy.sources(1, 0), toy.sources(1, 1), toy.sources(1, 1)])
# num_beams, draft_beams, gamma, max_decode_len: one beam and a block longer than any text; and
# eight candidates of six tokens, so that some beams hold nothing at first.
SHAPES = ((1, 3, 8, 6), (4, 5, 3, 9))


def assert_same(ours, plain):
  np.testing.assert_array_equal(ours.tokens, plain.tokens)
  np.testing.assert_allclose(ours.scores, plain.scores, atol=1e-4)
  np.testing.assert_array_equal(ours.status, plain.status)
  stats = ours.stats
  np.testing.assert_array_equal(stats.steps, plain.stats.steps)
  assert (stats.target_calls <= plain.stats.target_calls).all()
  np.testing.assert_array_equal(stats.target_calls + stats.accepted, plain.stats.target_calls)
  assert (stats.accepted <= stats.drafted).all()


def both(target, draft, tokens, num_beams, draft_beams, gamma, length, alpha=0.6):
  plain = sd.beam_search(target, tokens, num_beams, alpha, length)
  ours = sd.beam_search(target, tokens, num_beams, alpha, length, drafter=sd.ModelDrafter(draft),
                        draft_beams=draft_beams, gamma=gamma)
  assert_same(ours, plain)
  return ours


def assert_all_accepted(r, gamma):
  np.testing.assert_array_equal(r.stats.accepted, r.stats.drafted)
  np.testing.assert_array_equal(r.stats.target_calls, -(-r.stats.steps // (gamma + 1)))


def mixed(target, other, share):
  return target.replace(params=(1 - share) * target.params + share * other.params)


@settings(max_examples=60)
@given(shape=st.sampled_from(SHAPES), seed=st.integers(0, 10 ** 6), eos=st.floats(-4, 4),
       share=st.sampled_from([0.0, 0.02, 0.1, 0.3, 1.0, 2.0]), alpha=st.sampled_from([0.0, 0.6, 2.0]))
@example(shape=SHAPES[1], seed=0, eos=-30.0, share=0.1, alpha=0.6)
@example(shape=SHAPES[1], seed=0, eos=30.0, share=0.0, alpha=0.6)
def test_same_as_the_plain_search(shape, seed, eos, share, alpha):
  """Drafts from the target itself (share 0) over near ones to its contrary (2)."""
  target = toy_beams.random_toy(seed, eos=eos)
  draft = mixed(target, toy_beams.random_toy(seed + 1) if share < 2 else target.replace(
      params=0 * target.params), share)
  r = both(target, draft, SOURCES, *shape, alpha=alpha)
  if share == 0:
    assert_all_accepted(r, shape[2])


def test_drafts_of_every_quality_are_met():
  """So the test above sees accepted steps, rejected ones, and blocks accepted in part."""
  target = toy_beams.random_toy(0, eos=-2.0)
  rates = {}
  for share in (0.0, 0.3, 1.0):
    draft = mixed(target, toy_beams.random_toy(1), share)
    rates[share] = both(target, draft, SOURCES, *SHAPES[1]).stats.acceptance_rate
  assert rates[0.0] == 1 and 0.1 < rates[0.3] < 0.9 and rates[1.0] < rates[0.3]


TARGET, OTHER = tiny.random_t5(15, mlp_dim=40), tiny.random_t5(1, mlp_dim=40)
T5_SHAPE = (3, 3, 3, 12)


@pytest.mark.parametrize('share', [0.0, 0.03, 1.0])
def test_t5_keeps_exact_caches(share):
  """Blocks of every length are kept; all later logits come from the caches."""
  tokens = tiny.inputs(5)
  draft = TARGET.replace(params=jax.tree.map(
      lambda a, b: a + share * (b - a), TARGET.params, OTHER.params))
  r = both(TARGET, draft, tokens, *T5_SHAPE)
  if share == 0:
    assert_all_accepted(r, T5_SHAPE[2])
  elif share < 1:
    assert 0.1 < r.stats.acceptance_rate < 1


def test_logits_that_are_not_finite():
  """Of the target: the row ends as in the plain search. Of the draft: nothing is accepted."""
  target = toy_beams.random_toy(0, eos=-2.0)
  broken = target.replace(params=target.params.at[0, :, :, :, 0].set(np.nan))
  plain = sd.beam_search(broken, SOURCES, 4, 0.6, 9)
  ours = sd.beam_search(broken, SOURCES, 4, 0.6, 9, drafter=sd.ModelDrafter(target),
                        draft_beams=5, gamma=3)
  assert ours.status[0] == sd.Status.NON_FINITE
  np.testing.assert_array_equal(ours.status, plain.status)
  np.testing.assert_array_equal(ours.tokens, plain.tokens)
  np.testing.assert_allclose(ours.scores, plain.scores, atol=1e-4)
  assert (ours.stats.target_calls <= plain.stats.target_calls).all()
  nothing = target.replace(params=np.nan * target.params)
  assert both(target, nothing, SOURCES, *SHAPES[1]).stats.acceptance_rate < 0.3


def test_one_pass_of_the_target_over_the_tree():
  """gamma draft passes and one of the target, the encoders outside, no cache moved as a whole."""
  draft = tiny.random_t5(1, mlp_dim=40)
  chosen = beam.BeamSettings(num_beams=3, max_decode_len=9, draft_beams=5, gamma=4)
  jaxpr = jax.make_jaxpr(lambda *a: beam.search.__wrapped__(*a, settings=chosen))(
      TARGET, draft, tiny.inputs(2), np.float32(0.6)).jaxpr
  body = only_loop(jaxpr).params['body_jaxpr'].jaxpr
  scans = [e.params['length'] for e in equations(body) if e.primitive.name == 'scan']
  assert sorted(scans) == [4 - 1, 4 + 1]  # the draft's further levels, the replay
  vocabulary_products = [e.outvars[0].aval.shape for e in equations(body)
                         if e.primitive.name == 'dot_general'
                         and e.outvars[0].aval.shape[-1:] == (tiny.ROWS,)]
  assert sorted(vocabulary_products) == [(2, 5, 24), (2, 6, 24), (2, 3 + 4 * 5, 24)]
  slots = (9 + 4 + 2) * 3 + 6 + 4 * 5
  copied = [e.outvars[0].aval.shape for e in equations(body) if e.primitive.name == 'gather']
  assert not [shape for shape in copied if slots in shape and len(shape) == 4]
