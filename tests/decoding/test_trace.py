"""The record of every iteration: it holds the text, and asking for it changes nothing."""

import functools

import jax
import loops
import numpy as np
import toy
from hypothesis import given, settings, strategies as st

import specdec_jax as sd
from specdec_jax.reports import trace as trace_lib

LENGTH = 9


@functools.cache
def tables(kind):
  target = toy.random_toy(0, spread=2.0, eos=0.5)
  return target, {'alike': toy.scaled(target, 0.7), 'contrary': toy.scaled(target, -1.0),
                  'equal': target}[kind]


def decode(gamma, batch, seed=0, kind='alike', **more):
  target, draft = tables(kind)
  return sd.speculative_decode(target, sd.ModelDrafter(draft), toy.sources(batch), gamma=gamma,
                               max_decode_len=LENGTH, seed=seed, **more)


@settings(max_examples=40)
@given(st.sampled_from([1, 4]), st.sampled_from([1, 5]), st.integers(0, 1000),
       st.sampled_from(['alike', 'contrary', 'equal']))
def test_the_trace_holds_the_text(gamma, batch, seed, kind):
  result = decode(gamma, batch, seed, kind, trace=True)
  trace, stats = result.trace, result.stats
  most = stats.target_calls.max()
  assert trace.drafts.shape == (batch, most, gamma)
  assert trace.num_accepted.shape == trace.next_token.shape == trace.emitted.shape == (batch, most)
  np.testing.assert_array_equal(trace.emitted.sum(1), result.lengths)
  assert np.all((trace.num_accepted >= 0) & (trace.num_accepted <= gamma))
  assert np.all(trace.emitted <= trace.num_accepted + 1)
  behind = np.arange(most) >= stats.target_calls[:, None]
  assert not any(x[behind].any() for x in jax.tree.leaves(trace))
  for row in range(batch):
    iterations = trace_lib.iterations(result, row)
    text = [token for iteration in iterations for token in iteration.emitted]
    np.testing.assert_array_equal(text, result.tokens[row, :result.lengths[row]])
    accepted = np.array([len(i.accepted) for i in iterations])
    np.testing.assert_array_equal((np.arange(gamma) < accepted[:, None]).sum(0),
                                  stats.accepted_by_position[row])
    if kind == 'equal':
      assert not any(i.rejected for i in iterations)


def test_asking_for_it_changes_nothing():
  plain, traced = decode(4, 5), decode(4, 5, trace=True)
  assert plain.trace is None
  jax.tree.map(np.testing.assert_array_equal, plain, traced.replace(trace=None))


def test_it_costs_nothing_where_it_is_off():
  target, draft = tables('alike')

  def carried(trace):
    jaxpr, _ = loops.traced(target, sd.ModelDrafter(draft), toy.sources(5), gamma=4, max_decode_len=LENGTH, trace=trace)
    loop, = [e for e in jaxpr.eqns if e.primitive.name == 'while']
    return [v.aval.shape for v in loop.outvars]

  assert len(carried(True)) == len(carried(False)) + 5
  assert (5, LENGTH, 4) in carried(True) and (5, LENGTH, 4) not in carried(False)
