"""Matrices of a model: kernels that multiply and tables that are looked up, of floats or of int8.

An int8 matrix W is kept as values and a float32 scale for each output channel: a kernel's column, a table's row. The
product is made of the values, and its channels are multiplied by their scales after it, so that only int8 is read
from memory: x (V diag(s)) = (x V) diag(s).
"""

import functools
from typing import Any

import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Float32, Int

from specdec_jax.models.products import dot_general, tied_logits


class Int8Dense(nn.Module):
  """A projection with `kernel` int8 [in, out], `scale` float32 [out] and, where asked for, `bias` float32 [out].

  Attributes:
    features: out.
    dtype: of the result and of what is multiplied.
    use_bias: whether there is one.
    float32_result: return the products as they are summed up, whatever the dtype.
  """

  features: int
  dtype: Any
  use_bias: bool = False
  float32_result: bool = False

  @nn.compact
  def __call__(self, x: Float[Array, '*B I']) -> Float[Array, '*B O']:
    kernel = self.param('kernel', nn.initializers.zeros, (x.shape[-1], self.features), jnp.int8)
    scale = self.param('scale', nn.initializers.ones, (self.features,), jnp.float32)
    x = x.astype(self.dtype)
    y = dot_general(x, kernel.astype(self.dtype), (((x.ndim - 1,), (0,)), ((), ())),
                    preferred_element_type=jnp.float32) * scale
    if self.use_bias:
      y = y + self.param('bias', nn.initializers.zeros, (self.features,), jnp.float32)
    return y if self.float32_result else y.astype(self.dtype)


class Int8Embed(nn.Module):
  """A table with `embedding` int8 [rows, features] and `scale` float32 [rows]."""

  rows: int
  features: int
  dtype: Any

  def setup(self):
    self.embedding = self.param('embedding', nn.initializers.zeros, (self.rows, self.features), jnp.int8)
    self.scale = self.param('scale', nn.initializers.ones, (self.rows,), jnp.float32)

  def __call__(self, tokens: Int[Array, '*B']) -> Float[Array, '*B E']:
    return (self.embedding[tokens] * self.scale[tokens][..., None]).astype(self.dtype)

  def logits(self, x: Float[Array, 'B T E']) -> Float32[Array, 'B T V']:
    """Products with the rows."""
    return tied_logits(x, self.embedding.astype(self.dtype)) * self.scale


class FloatEmbed(nn.Embed):
  """flax's table, and the products with its rows."""

  def logits(self, x: Float[Array, 'B T E']) -> Float32[Array, 'B T V']:
    """Products with the rows."""
    return tied_logits(x, self.embedding.astype(self.dtype))


def dense(config, features: int, deviation: float, name: str | None = None, *, use_bias: bool = False,
          float32_result: bool = False) -> nn.Module:
  """A projection as the configuration has its weights; kernels are normal with this deviation at the start."""
  if config.int8_weights:
    return Int8Dense(features, config.dtype, use_bias, float32_result, name=name)
  product = functools.partial(dot_general, preferred_element_type=jnp.float32) if float32_result else dot_general
  return nn.Dense(features, use_bias=use_bias, dtype=config.dtype, name=name, dot_general=product,
                  kernel_init=nn.initializers.normal(deviation))


def embed(config, deviation: float) -> nn.Module:
  """The table of token embeddings as the configuration has its weights."""
  if config.int8_weights:
    return Int8Embed(config.vocab_size, config.emb_dim, config.dtype)
  return FloatEmbed(config.vocab_size, config.emb_dim, dtype=config.dtype,
                    embedding_init=nn.initializers.normal(deviation))
