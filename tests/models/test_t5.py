"""T5's passes: step by step, in blocks and teacher-forced they are one function."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from specdec_jax.models.t5_layers import relative_position_bucket

LENGTH, NEAR = 9, 2e-4
VARIANTS = {
    'v1.1': {},
    'v1.0': {'mlp_activations': ('relu',), 'logits_via_embedding': True},
    'umt5': {'relative_bias_per_layer': True},
}


def model(variant='v1.1', **changes):
  return tiny.random_t5(0, num_decoder_layers=2, **VARIANTS[variant], **changes)


def tokens(batch=3):
  return np.random.default_rng(1).integers(0, tiny.PIECES, size=(batch, LENGTH)).astype(np.int32)


step = jax.jit(lambda m, cache, block, positions: m.step(cache, block, positions))
prefill = jax.jit(lambda m, inputs: m.prefill(inputs, LENGTH + 4))


def in_blocks(m, inputs, decoder_tokens, sizes):
  """Logits of steps of the given sizes, side by side: [B, T, V]."""
  cache, at, out = prefill(m, inputs), 0, []
  for size in sizes:
    positions = np.full(len(inputs), at, np.int32)
    logits, cache = step(m, cache, decoder_tokens[:, at:at + size], positions)
    out.append(np.asarray(logits))
    at += size
  return np.concatenate(out, axis=1)


@pytest.mark.parametrize('variant', VARIANTS)
def test_blocks_equal_single_tokens_and_the_teacher_forced_pass(variant):
  m, inputs = model(variant), tiny.inputs(3)
  full = np.asarray(m.logits(inputs, tokens()))
  assert full.shape == (3, LENGTH, tiny.ROWS) and full.dtype == np.float32
  single = in_blocks(m, inputs, tokens(), [1] * LENGTH)
  blocks = in_blocks(m, inputs, tokens(), [4, 1, 4])
  np.testing.assert_allclose(single, full, atol=NEAR)
  np.testing.assert_allclose(blocks, full, atol=NEAR)
  assert (full.std(axis=(0, 1)) > 0.1).all()  # inputs and past matter


def test_rows_stand_at_their_own_positions():
  m, inputs = model(), tiny.inputs(3)
  full = np.asarray(m.logits(inputs, tokens()))
  cache = prefill(m, inputs)
  _, cache = step(m, cache, tokens()[:, :4], np.zeros(3, np.int32))
  starts = np.array([4, 2, 0], np.int32)  # rewound by 0, 2 and 4
  block = np.stack([row[s:s + 4] for row, s in zip(tokens(), starts)])
  logits, _ = step(m, cache, block, starts)
  for row, start in enumerate(starts):
    np.testing.assert_allclose(logits[row], full[row, start:start + 4], atol=NEAR)


@pytest.mark.parametrize('variant', ['v1.1', 'umt5'])
@pytest.mark.parametrize('garbage', [1e3, -1e3])
def test_stale_entries_are_never_seen(variant, garbage):
  m, inputs = model(variant), tiny.inputs(3)
  _, cache = step(m, prefill(m, inputs), tokens()[:, :4], np.zeros(3, np.int32))
  positions = np.array([4, 2, 1], np.int32)
  block = tokens()[:, 4:8]
  stale = np.arange(LENGTH + 4) >= positions[:, None]
  dirty = {**cache, 'self': jax.tree.map(
      lambda x: jnp.where(stale[:, None, :, None], garbage, x), cache['self'])}
  clean_logits, _ = step(m, cache, block, positions)
  dirty_logits, _ = step(m, dirty, block, positions)
  np.testing.assert_array_equal(clean_logits, dirty_logits)


def test_entries_in_force_are_seen():
  m, inputs = model(), tiny.inputs(3)
  _, cache = step(m, prefill(m, inputs), tokens()[:, :4], np.zeros(3, np.int32))
  wrong = {**cache, 'self': jax.tree.map(lambda x: x.at[:, :, 3].mul(-1), cache['self'])}
  at, block = np.full(3, 4, np.int32), tokens()[:, 4:8]
  difference = np.abs(np.asarray(step(m, cache, block, at)[0]) - step(m, wrong, block, at)[0])
  assert (difference.max(axis=-1) > 1e-2).all()


def test_a_step_leaves_the_entries_before_it():
  m = model()
  _, cache = step(m, prefill(m, tiny.inputs(3)), tokens()[:, :4], np.zeros(3, np.int32))
  _, later = step(m, cache, tokens()[:, 4:8], np.full(3, 4, np.int32))
  for before, after in zip(jax.tree.leaves(cache['self']), jax.tree.leaves(later['self'])):
    np.testing.assert_array_equal(before[:, :, :4], after[:, :, :4])
    assert (before[:, :, 4:8] != after[:, :, 4:8]).any()
  for before, after in zip(jax.tree.leaves(cache['cross']), jax.tree.leaves(later['cross'])):
    np.testing.assert_array_equal(before, after)


def test_padding_of_the_encoder_tokens_does_not_matter():
  m, inputs = model(), tiny.inputs(3)
  padded = np.pad(inputs, ((0, 0), (0, 6)))
  np.testing.assert_allclose(m.logits(padded, tokens()), m.logits(inputs, tokens()), atol=NEAR)


def test_zero_among_the_decoder_tokens_is_a_token():
  m, inputs = model(), tiny.inputs(1)
  with_zero, without = np.array([[0, 0, 5, 6]]), np.array([[0, 7, 5, 6]])
  difference = np.abs(np.asarray(m.logits(inputs, with_zero)) - m.logits(inputs, without))
  assert difference[0, 0].max() < 1e-5 and (difference[0, 1:].max(axis=-1) > 1e-2).all()


def test_rows_of_padding_only_are_finite():
  assert np.isfinite(model().logits(np.zeros((2, 4), int), tokens(2))).all()


def test_bfloat16_is_near_float32_and_its_logits_are_float32():
  m, inputs = tiny.random_t5(0), tiny.inputs(3)
  half = m.replace(params=jax.tree.map(lambda x: x.astype(jnp.bfloat16), m.params),
                   config=tiny.config(dtype='bfloat16'))
  full, ours = m.logits(inputs, tokens()), half.logits(inputs, tokens())
  assert ours.dtype == jnp.float32
  assert np.abs(np.asarray(full) - ours).max() < 0.3 * np.asarray(full).std()
  cache = prefill(half, inputs)
  assert {x.dtype for x in jax.tree.leaves(cache['self'])} == {jnp.dtype('bfloat16')}
  logits, _ = step(half, cache, tokens()[:, :4], np.zeros(3, np.int32))
  assert logits.dtype == jnp.float32
  # Logits finer than bfloat16 can tell: they never went through it.
  assert (np.asarray(logits.astype(jnp.bfloat16), np.float32) != np.asarray(logits)).any()


def test_parameter_tree_is_t5x():
  shapes = lambda m: {jax.tree_util.keystr(path, simple=True, separator='/'): leaf.shape
                      for path, leaf in jax.tree_util.tree_leaves_with_path(m.params)}
  ours = shapes(tiny.random_t5(0))
  layer = ['pre_mlp_layer_norm/scale', 'mlp/wi_0/kernel', 'mlp/wi_1/kernel', 'mlp/wo/kernel']
  kernels = ['query/kernel', 'key/kernel', 'value/kernel', 'out/kernel']
  encoder = ['pre_attention_layer_norm/scale', *[f'attention/{k}' for k in kernels], *layer]
  decoder = ['pre_self_attention_layer_norm/scale', 'pre_cross_attention_layer_norm/scale', *layer,
             *[f'{a}/{k}' for a in ('self_attention', 'encoder_decoder_attention') for k in kernels]]
  assert set(ours) == {
      'token_embedder/embedding', 'encoder/encoder_norm/scale', 'encoder/relpos_bias/rel_embedding',
      'decoder/decoder_norm/scale', 'decoder/relpos_bias/rel_embedding', 'decoder/logits_dense/kernel',
      *[f'encoder/layers_0/{x}' for x in encoder], *[f'decoder/layers_0/{x}' for x in decoder]}
  assert ours['decoder/layers_0/self_attention/query/kernel'] == (16, 16)
  assert ours['decoder/logits_dense/kernel'] == (16, tiny.ROWS)
  assert ours['encoder/relpos_bias/rel_embedding'] == (2, 8)
  old, per_layer = shapes(model('v1.0')), shapes(model('umt5'))
  assert 'decoder/layers_1/mlp/wi/kernel' in old and 'decoder/logits_dense/kernel' not in old
  assert 'decoder/layers_1/relpos_bias/rel_embedding' in per_layer
  assert 'decoder/relpos_bias/rel_embedding' not in per_layer


def test_tied_logits_are_scaled_where_asked():
  scaled, plain = model('v1.0'), model('v1.0')
  plain = plain.replace(config=dataclasses.replace(plain.config, scale_tied_logits=False))
  np.testing.assert_allclose(plain.logits(tiny.inputs(3), tokens()),
                             4 * np.asarray(scaled.logits(tiny.inputs(3), tokens())), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize('bidirectional', [True, False])
@pytest.mark.parametrize('num_buckets, max_distance', [(32, 128), (8, 16)])
def test_relative_buckets(bidirectional, num_buckets, max_distance):
  """Exact near by, logarithmic further off, the last bucket from max_distance on."""
  relative = np.arange(-300, 301)
  got = np.asarray(relative_position_bucket(relative, bidirectional=bidirectional,
                                            num_buckets=num_buckets, max_distance=max_distance))
  half = num_buckets // 2 if bidirectional else num_buckets
  for key_minus_query, bucket in zip(relative.tolist(), got.tolist()):
    ahead = bidirectional and key_minus_query > 0
    distance = abs(key_minus_query) if bidirectional else max(-key_minus_query, 0)
    exact = half // 2
    if distance < exact:
      expected = distance
    else:
      share = np.log(distance / exact) / np.log(max_distance / exact)
      expected = min(exact + int(share * (half - exact) + 1e-5), half - 1)
    assert bucket == expected + half * ahead
