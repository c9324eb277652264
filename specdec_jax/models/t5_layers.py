"""The parts of T5's layers that encoder and decoder share.

Dimension names: B batch, T tokens of one pass, K keys, H heads, D head_dim, E emb_dim.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Int

from specdec_jax.models.activations import ACTIVATIONS
from specdec_jax.models.attention import attention_weights, finite_values, mix
from specdec_jax.models.config import T5Config
from specdec_jax.models.products import split_heads
from specdec_jax.models.projections import dense


def relative_position_bucket(relative_position: Int[Array, '*shape'], *, bidirectional: bool, num_buckets: int,
                             max_distance: int) -> Int[Array, '*shape']:
  """Maps key position minus query position to T5's bucket number."""
  distance = -relative_position
  bucket = jnp.zeros_like(distance)
  if bidirectional:
    num_buckets //= 2
    bucket += (distance < 0) * num_buckets
    distance = jnp.abs(distance)
  else:
    distance = jnp.maximum(distance, 0)
  exact = num_buckets // 2
  logarithmic = exact + (
      jnp.log(distance.astype(jnp.float32) / exact + jnp.finfo(jnp.float32).eps)
      / math.log(max_distance / exact) * (num_buckets - exact)
  ).astype(jnp.int32)
  logarithmic = jnp.minimum(logarithmic, num_buckets - 1)
  return bucket + jnp.where(distance < exact, distance, logarithmic)


class RelativeBias(nn.Module):
  """Relative position bias from absolute positions."""

  config: T5Config
  bidirectional: bool

  @nn.compact
  def __call__(self, query_positions, key_positions):
    """int32 [B, T] and [K] -> float32 [B, H, T, K]."""
    cfg = self.config
    embedding = self.param(
        'rel_embedding', nn.initializers.variance_scaling(1.0, 'fan_avg', 'uniform'),
        (cfg.num_heads, cfg.num_buckets), jnp.float32)
    bucket_BxTxK = relative_position_bucket(
        key_positions - query_positions[..., None], bidirectional=self.bidirectional,
        num_buckets=cfg.num_buckets, max_distance=cfg.max_distance)
    one_hot = jax.nn.one_hot(bucket_BxTxK, cfg.num_buckets, dtype=jnp.float32)
    return jnp.einsum('btkn,hn->bhtk', one_hot, embedding.astype(jnp.float32))


class RMSNorm(nn.Module):
  """T5's layer norm: no mean, no bias, float32 inside."""

  config: T5Config

  @nn.compact
  def __call__(self, x):
    scale = self.param('scale', nn.initializers.ones, (x.shape[-1],), jnp.float32)
    x = x.astype(jnp.float32)
    x = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + self.config.layer_norm_epsilon)
    return (x * scale).astype(self.config.dtype)


class Attention(nn.Module):
  """Multi-head attention without scaling of the logits, as in T5."""

  config: T5Config

  def setup(self):
    cfg = self.config
    # T5 folds 1/sqrt(D) into the query's initial scale.
    self.query = dense(cfg, cfg.attention_dim, (cfg.emb_dim * cfg.head_dim) ** -0.5)
    self.key = dense(cfg, cfg.attention_dim, cfg.emb_dim ** -0.5)
    self.value = dense(cfg, cfg.attention_dim, cfg.emb_dim ** -0.5)
    self.out = dense(cfg, cfg.emb_dim, cfg.attention_dim ** -0.5)
    self.dropout = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))

  def keys_values(self, x):
    """[B, K, E] -> keys and values, [B, H, K, D] each; see `attention.finite_values`."""
    heads = self.config.num_heads
    return finite_values(split_heads(self.key(x), heads), split_heads(self.value(x), heads))

  def __call__(self, x, keys, values, visible, bias=None, deterministic=True):
    """[B, T, E] attends over keys, values [B, H, K, D]; visible bool [B, 1, 1|T, K], bias float32 [B, H, T, K]."""
    query = split_heads(self.query(x), self.config.num_heads)
    weights = attention_weights(query, keys, visible, bias).astype(self.config.dtype)
    return self.out(mix(self.dropout(weights, deterministic=deterministic), values))


class MLP(nn.Module):
  """The feed-forward block: the product of its activated input projections."""

  config: T5Config

  @nn.compact
  def __call__(self, x, deterministic=True):
    cfg = self.config
    names = ['wi'] if len(cfg.mlp_activations) == 1 else [
        f'wi_{i}' for i in range(len(cfg.mlp_activations))]
    hidden: Any = 1
    for name, activation in zip(names, cfg.mlp_activations):
      hidden *= ACTIVATIONS[activation](dense(cfg, cfg.mlp_dim, cfg.emb_dim ** -0.5, name)(x))
    hidden = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))(hidden, deterministic=deterministic)
    return dense(cfg, cfg.emb_dim, cfg.mlp_dim ** -0.5, 'wo')(hidden)
