"""The compiled program: one loop for the whole batch, the encoders outside of it, no way back to the host."""

import functools

import jax
import loops
import pytest
import tiny
from programs import equations, only_loop

import specdec_jax as sd
from specdec_jax.decoding import decode_loop

GAMMA = 3
TARGET = tiny.random_t5(0, num_encoder_layers=2, num_decoder_layers=3, mlp_dim=40)
DRAFT = tiny.random_t5(1, mlp_dim=40)


@functools.cache
def traced(gamma=GAMMA, temperature=1.0):
  jaxpr, args = loops.traced(TARGET, sd.ModelDrafter(DRAFT) if gamma else None, tiny.inputs(2), gamma=gamma,
                             sampling=sd.Sampling(temperature=temperature))
  paths = [jax.tree_util.keystr(path, simple=True, separator='/')
           for path, _ in jax.tree_util.tree_leaves_with_path(args)]
  return jaxpr, dict(zip(paths, jaxpr.invars, strict=True))


@pytest.mark.parametrize('gamma', [GAMMA, 0])
def test_one_loop_at_the_top(gamma):
  jaxpr, _ = traced(gamma)
  assert [e.primitive.name for e in jaxpr.eqns if e.primitive.name in ('while', 'scan')] == ['while']
  body = only_loop(jaxpr).params['body_jaxpr'].jaxpr
  scans = [e.params['length'] for e in equations(body) if e.primitive.name == 'scan']
  assert scans == ([GAMMA - 1] if gamma else [])  # the draft's further steps


@pytest.mark.parametrize('gamma', [GAMMA, 0])
def test_the_loop_reads_decoder_weights_only(gamma):
  """Neither the encoder nor the cross-attention's keys and values are computed inside."""
  jaxpr, names = traced(gamma)
  read = set(map(id, only_loop(jaxpr).invars))
  inside = {name for name, var in names.items() if id(var) in read and 'params' in name}
  outside = {name for name, var in names.items() if 'params' in name} - inside
  assert inside and outside
  assert not [n for n in inside if '/encoder/' in n]
  for name in outside:
    assert '/encoder/' in name or any(
        f'encoder_decoder_attention/{part}/' in name for part in ('key', 'value')), name
  models = {name.split('/params/')[0] for name in inside}
  assert len(models) == (2 if gamma else 1)


def test_each_weight_is_multiplied_once_a_pass():
  """Target: one pass an iteration; draft: one in the loop and one in the scan."""
  jaxpr, _ = traced()
  body = only_loop(jaxpr).params['body_jaxpr'].jaxpr
  vocabulary_products = [
      e for e in equations(body) if e.primitive.name == 'dot_general'
      and e.outvars[0].aval.shape[-1:] == (tiny.ROWS,)]
  assert sorted(e.outvars[0].aval.shape[1] for e in vocabulary_products) == [1, 2, GAMMA + 1]


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_nothing_goes_back_to_the_host(temperature):
  jaxpr, _ = traced(GAMMA, temperature)
  names = {e.primitive.name for e in equations(jaxpr)}
  assert not [n for n in names if 'callback' in n or n in ('infeed', 'outfeed')]
  args, settings = loops.arguments(TARGET, sd.ModelDrafter(DRAFT), tiny.inputs(2), gamma=GAMMA,
                                   sampling=sd.Sampling(temperature=temperature))
  text = decode_loop.lower(*args, settings=settings).as_text()
  assert 'callback' not in text and 'outfeed' not in text


def test_caches_have_room_for_a_whole_block_at_the_last_position():
  jaxpr, _ = traced()
  slots = {v.aval.shape[2] for v in only_loop(jaxpr).invars
           if len(v.aval.shape) == 4 and v.aval.shape[1] == 2 and v.aval.shape[3] == 8}
  assert slots == {7, 1 + 16 + GAMMA + 1}  # the encoder's tokens, the decoder's
