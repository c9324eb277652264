"""LongT5's encoder against T5's own where its window holds the whole text, and its blocks by hand."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from specdec_jax.errors import SettingError
from specdec_jax.models.longt5 import global_blocks, in_blocks, with_neighbours
from specdec_jax.models.network import network

DECODER = np.array([[0, 5, 9], [0, 7, 3]], np.int32)


def logits(model, tokens):
  run = jax.jit(network(model.config).apply)
  return np.asarray(run({'params': model.params}, tokens, DECODER[:len(tokens)]))


def local(radius):
  return tiny.random_t5(0, encoder_attention='local', local_radius=radius)


def test_a_window_as_wide_as_the_text_is_full_attention():
  tokens, model = tiny.inputs(2, 9), local(9)
  full = model.replace(config=dataclasses.replace(model.config, encoder_attention='full'))
  np.testing.assert_allclose(logits(model, tokens), logits(full, tokens), rtol=0, atol=1e-4)
  assert np.abs(logits(local(2), tokens) - logits(full, tokens)).max() > 0.01


@pytest.mark.parametrize('kind', [pytest.param('local', marks=pytest.mark.long), 'transient_global'])
def test_padding_and_other_rows_change_nothing(kind):
  model = tiny.random_t5(1, encoder_attention=kind, local_radius=3, global_block_size=4)
  row = np.array([[4, 8, 3, 9, 12, 6, 7, 2, 5, 1]], np.int32)
  alone = logits(model, row)
  padded = np.zeros((2, 23), np.int32)
  padded[0, :10], padded[1] = row, 5
  np.testing.assert_allclose(logits(model, padded)[:1], alone, rtol=0, atol=1e-4)
  broken = jax.tree.map(lambda x: x, model.params)
  broken['token_embedder'] = {'embedding': broken['token_embedder']['embedding'].at[0].set(jnp.nan)}
  found = logits(model.replace(params=broken), padded[:1])[:, 1:]  # the first decoder token is 0 itself
  assert not np.isfinite(found).all()  # through the decoder's own attention
  prefill = jax.jit(functools.partial(network(model.config).apply, method='prefill'), static_argnums=2)
  encoder = prefill({'params': broken}, padded[:1], 1)['cross']
  assert np.isfinite(np.asarray(encoder[0]['key'])[:, :, :10]).all()  # and not through the encoder's


def test_an_input_shorter_than_a_block_has_no_global_tokens():
  model = tiny.random_t5(1, encoder_attention='transient_global', local_radius=5, global_block_size=16)
  params = {**model.params, 'encoder': {k: v for k, v in model.params['encoder'].items() if k != 'side_relpos_bias'}}
  params['encoder'] = jax.tree.map(lambda x: x, params['encoder'])
  del params['encoder']['layers_0']['attention']['T5LayerNorm_0']
  plain = model.replace(params=params, config=dataclasses.replace(model.config, encoder_attention='local'))
  tokens = tiny.inputs(2, 5)
  np.testing.assert_allclose(logits(model, tokens), logits(plain, tokens), rtol=0, atol=1e-5)


def test_blocks_of_rows_of_unlike_length():
  visible = np.arange(11) < np.array([11, 9, 8, 3, 0])[:, None]
  ids, seen = global_blocks(visible, 4)
  np.testing.assert_array_equal(ids, [
      [0] * 4 + [1] * 7, [0] * 4 + [1] * 5 + [-1] * 2, [0] * 4 + [1] * 4 + [-1] * 3, [-1] * 11, [-1] * 11])
  np.testing.assert_array_equal(seen, [[1, 1], [1, 1], [1, 1], [0, 0], [0, 0]])


def test_neighbours():
  x = in_blocks(jnp.arange(1, 6)[None], 2)
  np.testing.assert_array_equal(x, [[[1, 2], [3, 4], [5, 0]]])
  np.testing.assert_array_equal(with_neighbours(x), [[[0, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 0], [3, 4, 5, 0, 0, 0]]])


@pytest.mark.parametrize('changes, message', [
    ({'encoder_attention': 'global'}, "encoder_attention is 'global'"), ({'local_radius': 0}, 'local_radius is 0'),
    ({'global_block_size': 2.5}, 'global_block_size is 2.5'),
    ({'encoder_attention': 'local', 'relative_bias_per_layer': True}, 'relative_bias_per_layer must be False')])
def test_mistakes(changes, message):
  with pytest.raises(SettingError, match=message):
    tiny.config(**changes)
