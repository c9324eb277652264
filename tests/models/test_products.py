"""The products that all decoders share: what is done for a TPU changes no number."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.models import products

EMBED = (((2,), (0,)), ((), ()))


def normal(seed, *shape):
  return jax.random.normal(jax.random.key(seed), shape)


@pytest.mark.parametrize('tokens', [1, 3])
def test_products(tokens):
  x, kernel, table = normal(0, 1, tokens, 4), normal(1, 4, 5), normal(2, 7, 4)
  np.testing.assert_allclose(products.dot_general(x, kernel, EMBED), x @ kernel, atol=1e-6)
  np.testing.assert_allclose(products.tied_logits(x, table), x @ table.T, atol=1e-6)


def test_a_lone_row_goes_twice_on_a_tpu(monkeypatch):
  monkeypatch.setattr(products.lax, 'platform_dependent', lambda *args, tpu, **_: tpu(*args))
  x, kernel = normal(0, 1, 1, 4), normal(1, 4, 5)
  text = str(jax.make_jaxpr(lambda *args: products.dot_general(*args, EMBED))(x, kernel))
  assert 'f32[1,2,5] = dot_general' in text
  np.testing.assert_allclose(products.dot_general(x, kernel, EMBED), x @ kernel, atol=1e-6)


def test_a_lone_row_goes_twice_on_a_cpu_in_bfloat16_alone(monkeypatch):
  monkeypatch.setattr(products.lax, 'platform_dependent', lambda *args, cpu, **_: cpu(*args))
  for dtype, name in ((jnp.float32, 'f32'), (jnp.bfloat16, 'bf16')):
    for rows in (1, 2):
      x, kernel = normal(0, 1, rows, 4).astype(dtype), normal(1, 4, 5).astype(dtype)
      text = str(jax.make_jaxpr(lambda *args: products.dot_general(*args, EMBED))(x, kernel))
      assert f'{name}[1,{2 if (name, rows) == ("bf16", 1) else rows},5] = dot_general' in text


def test_in_bfloat16_a_row_s_product_does_not_depend_on_the_rows_beside_it():
  x, kernel = normal(0, 1, 3, 64).astype(jnp.bfloat16), normal(1, 64, 5).astype(jnp.bfloat16)
  product = jax.jit(lambda x: products.dot_general(x, kernel, EMBED))
  np.testing.assert_array_equal(product(x)[:, :1], product(x[:, :1]))


def test_heads():
  x = jnp.arange(12).reshape(1, 2, 6)
  np.testing.assert_array_equal(products.split_heads(x, 3)[0, :, 1], [[6, 7], [8, 9], [10, 11]])
