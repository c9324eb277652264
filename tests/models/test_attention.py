"""Masks select: nothing that a token may not see reaches it, whatever its numbers are, in every family and pass."""

import dataclasses

import families
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from families import ODD, OTHERS
from hypothesis import given, settings, strategies as st

import specdec_jax as sd
from specdec_jax.logits_processors import ForbiddenTokens
from specdec_jax.models import attention, gpt2, t5
from specdec_jax.models.visibility import Visibility
from specdec_jax.results import Status

BATCH, LENGTH, SLOTS = 3, 8, 12
BROKEN = [np.nan, np.inf, -np.inf]


def texts(seed: int) -> np.ndarray:
  """Decoder tokens [BATCH, LENGTH] without ODD."""
  return np.random.default_rng(seed).integers(0, ODD, (BATCH, LENGTH)).astype(np.int32)


def family(name, value=np.nan):
  """A model, the same with a broken embedding of ODD, and what is given before the decoder's tokens."""
  model = families.make(name)
  return model, families.with_embedding(model, ODD, value), families.inputs(model, BATCH)


@pytest.mark.parametrize('value', BROKEN)
def test_weights_and_mixtures_of_broken_places(value):
  """By hand: a broken key or value is as if it were not there for who doesn't see it, and breaks who does."""
  rng = np.random.default_rng(0)
  query, keys, values = (rng.normal(size=(1, 1, n, 4)).astype(np.float32) for n in (3, 5, 5))
  visible = np.array([[1, 1, 0, 0, 0], [1, 1, 0, 1, 0], [0, 0, 0, 0, 0]], bool)[None, None]
  for broken in (keys, values):
    broken[0, 0, 2, 1] = broken[0, 0, 3, :] = value
    clean_keys, clean_values = attention.finite_values(keys, values)
    weights = attention.attention_weights(query, clean_keys, visible, bias=np.float32(0.5), scale=0.3)
    mixed = np.asarray(attention.mix(weights, clean_values))[0]
    scores = np.exp(0.3 * query[0, 0, 0] @ keys[0, 0, :2].T)
    np.testing.assert_allclose(mixed[0], scores / scores.sum() @ values[0, 0, :2], rtol=1e-5)
    assert np.isnan(mixed[1]).all() or broken is keys  # a key of minus infinity may only take no weight
    np.testing.assert_array_equal(mixed[2], 0)
    keys[~np.isfinite(keys)] = 0.0


def test_slots_that_no_query_sees_are_zero():
  values = jnp.full((1, 2, 4, 3), jnp.nan).at[:, :, 1].set(7.0)
  visible = jnp.array([[0, 1, 0, 0], [0, 1, 0, 0]], bool)[None, None]
  seen = np.asarray(attention.seen_values(values, visible))
  assert (seen[:, :, 1] == 7).all() and (seen[:, :, [0, 2, 3]] == 0).all()


@pytest.mark.parametrize('name', families.NAMES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), at=st.tuples(*[st.integers(1, LENGTH)] * BATCH), value=st.sampled_from(BROKEN))
def test_later_tokens_and_other_rows_do_not_reach_a_place(name, seed, at, value):
  """Teacher-forced. ODD stands at its own place in every row, and not at all in some."""
  _, broken, before = family(name, value)
  clean, odd = texts(seed), texts(seed)
  for row, place in enumerate(at):
    odd[row, place:place + 2] = ODD
  wanted, got = (families.logits(broken, before, tokens)[..., OTHERS] for tokens in (clean, odd))
  for row, place in enumerate(at):
    np.testing.assert_array_equal(got[row, :place], wanted[row, :place])
    assert not np.isfinite(got[row, place:]).any()  # who sees it is broken


@pytest.mark.parametrize('name', families.NAMES)
@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), value=st.sampled_from(BROKEN), data=st.data())
def test_a_rejected_block_leaves_nothing(name, seed, value, data):
  """Blocks of three with ODD somewhere, rewound and written again, as by a draft that is rejected."""
  model, broken, before = family(name, value)
  tokens, at = texts(seed), np.zeros(BATCH, np.int32)
  wanted = families.logits(model, before, tokens)[..., OTHERS]
  cache = families.prefill(broken, before, BATCH, SLOTS)
  for _ in range(3):
    block = np.stack([row[i:i + 3] for row, i in zip(tokens, at)])
    kept = np.array([data.draw(st.integers(1, 3), label='kept') for _ in range(BATCH)])
    drafted = np.where(np.arange(3) < kept[:, None], block, ODD)
    logits, cache = families.step(broken, cache, drafted, at)
    for row, (start, count) in enumerate(zip(at, kept)):
      np.testing.assert_allclose(np.asarray(logits)[row, :count][:, OTHERS], wanted[row, start:start + count],
                                 atol=2e-4)
      assert not np.isfinite(np.asarray(logits)[row, count:][:, OTHERS]).any()
    at = np.minimum(at + kept, LENGTH - 3).astype(np.int32)


@pytest.mark.parametrize('garbage', [1e3, -1e3, *BROKEN])
@pytest.mark.parametrize('name', families.NAMES)
def test_stale_entries_are_never_seen(name, garbage):
  model, _, before = family(name)
  tokens, positions = texts(0), np.array([4, 2, 1], np.int32)
  cache = families.prefill(model, before, BATCH, SLOTS)
  _, cache = families.step(model, cache, tokens[:, :4], np.zeros(BATCH, np.int32))
  stale = np.arange(SLOTS) >= positions[:, None]
  clean, _ = families.step(model, cache, tokens[:, 4:8], positions)
  dirty, _ = families.step(model, families.poisoned(cache, stale, garbage), tokens[:, 4:8], positions)
  np.testing.assert_array_equal(clean, dirty)


@pytest.mark.parametrize('name', families.NAMES)
def test_entries_in_force_are_seen(name):
  model, _, before = family(name)
  tokens, at = texts(0), np.full(BATCH, 4, np.int32)
  cache = families.prefill(model, before, BATCH, SLOTS)
  _, cache = families.step(model, cache, tokens[:, :4], np.zeros(BATCH, np.int32))
  wrong = {**cache, 'self': jax.tree.map(lambda x: x.at[:, :, 3].mul(-1), cache['self'])}
  difference = np.abs(np.asarray(families.step(model, cache, tokens[:, 4:8], at)[0])
                      - families.step(model, wrong, tokens[:, 4:8], at)[0])
  assert (difference.max(axis=(1, 2)) > 1e-2).all()


@pytest.mark.parametrize('value', BROKEN)
@pytest.mark.parametrize('name', ['t5 v1.1', 'umt5'])
def test_padding_of_the_encoder_tokens_reaches_nothing(name, value):
  """In the encoder, in cross-attention, in teacher forcing and in steps; one row is padding only."""
  model = families.make(name)
  broken = families.with_embedding(model, 0, value)
  before = (np.pad(tiny.inputs(BATCH), ((0, 0), (0, 3))),)
  before[0][2] = 0
  tokens = np.where(texts(1) == 0, 7, texts(1))
  wanted = families.logits(model, before, tokens)
  assert np.isfinite(wanted).all()
  np.testing.assert_array_equal(families.logits(broken, before, tokens), wanted)
  logits, _ = families.step(broken, families.prefill(broken, before, BATCH, SLOTS), tokens, np.zeros(BATCH, np.int32))
  np.testing.assert_allclose(logits, wanted, atol=2e-4)


@pytest.mark.parametrize('value', BROKEN)
@pytest.mark.parametrize('name', ['t5 v1.1', 'umt5'])
def test_garbage_in_the_padding_of_the_cross_cache_reaches_nothing(name, value):
  """Whatever stands in its keys and values there: broken keys, huge values; broken values are never kept."""
  model, before = families.make(name), (np.pad(tiny.inputs(BATCH), ((0, 0), (0, 3))),)
  broken = families.with_embedding(model, 0, value)
  padding = (before[0] == 0)[:, None, :, None]
  assert padding.any(2).all()
  cache = families.prefill(model, before, BATCH, SLOTS)
  wanted, _ = families.step(model, cache, texts(0), np.zeros(BATCH, np.int32))
  for layer in families.prefill(broken, before, BATCH, SLOTS)['cross']:
    assert np.isfinite(layer['value']).all()
  cross = [{'key': jnp.where(padding, value, layer['key']), 'value': jnp.where(padding, 3e38, layer['value'])}
           for layer in cache['cross']]
  assert len(cross) == 2 and not np.isfinite(cross[0]['key']).all()
  got, _ = families.step(model, {**cache, 'cross': cross}, texts(0), np.zeros(BATCH, np.int32))
  np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize('name', ['t5 v1.1', 'umt5'])
def test_a_broken_encoder_token_ends_its_row_alone(name):
  model, broken, before = family(name)
  odd = before[0].copy()
  odd[1, 0] = ODD
  wanted, got = families.logits(model, before, texts(0)), families.logits(broken, (odd,), texts(0))
  np.testing.assert_array_equal(got[[0, 2]], wanted[[0, 2]])
  assert not np.isfinite(got[1]).any()


@pytest.mark.parametrize('value', BROKEN)
@pytest.mark.parametrize('sampling', [sd.Sampling(), sd.Sampling(temperature=0.0)], ids=str)
def test_a_drafted_token_that_the_target_never_emits_changes_no_text(sampling, value):
  """Random drafts propose a forbidden token whose embedding is broken; it is rejected, and that is all."""
  model, tokens = tiny.random_t5(0), tiny.inputs(16)
  tokens[tokens == ODD] = 6
  options = dict(sampling=sampling, max_decode_len=12, logits_processors=[ForbiddenTokens([ODD])])
  decode = lambda m: sd.speculative_decode(m, sd.RandomDrafter(), tokens, gamma=4, trace=True, **options)
  sound, got = decode(model), decode(families.with_embedding(model, ODD, value))
  assert (sound.trace.drafts == ODD).any()
  np.testing.assert_array_equal(got.tokens, sound.tokens)
  assert Status.NON_FINITE not in got.status
  if sampling.greedy:
    plain = sd.autoregressive_decode(model, tokens, **options)
    tiny.assert_same_text(model, tokens, got.tokens, plain.tokens)


def attention_of(name):
  """Self-attention over two tokens, of which each sees itself alone: x, keep -> [1, 2, E], and its parameters."""
  cfg = dataclasses.replace(families.make(name).config, dropout_rate=0.5)
  module = (gpt2 if cfg.decoder_only else t5).Attention(cfg)
  seen = Visibility(None, None, jnp.eye(2, dtype=bool)[None, None])

  def run(module, x, deterministic):
    if cfg.decoder_only:
      return module(x, seen, None, None, deterministic)[0]
    return module(x, *module.keys_values(x), seen.visible, None, deterministic)

  x = jax.random.normal(jax.random.key(0), (1, 2, cfg.emb_dim))
  params = module.init(jax.random.key(1), x, True, method=run)
  return jax.jit(lambda key: module.apply(params, x, False, method=run, rngs={'dropout': key})), (
      module.apply(params, x, True, method=run))


@pytest.mark.parametrize('name', ['t5 v1.1', 'gpt2'])
def test_dropout_drops_weights_and_doubles_the_rest(name):
  """Two heads whose one weight is 1: their parts of the output are 0 or twice what they were."""
  run, whole = attention_of(name)
  found = np.stack([run(jax.random.key(seed)) for seed in range(40)])[:, 0, 0]
  assert len(np.unique(found.round(4), axis=0)) == 4
  np.testing.assert_allclose(np.unique(found.round(4), axis=0).mean(0), whole[0, 0], atol=1e-3)
