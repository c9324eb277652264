"""GPT-2 in Flax Linen with an explicit, rewindable cache.

Dimension names: B batch, T tokens of one pass, L cache length, H heads, D head_dim,
E emb_dim, V vocab_size.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn

from specdec_jax.models import cache as cache_lib
from specdec_jax.models.activations import ACTIVATIONS
from specdec_jax.models.config import GPT2Config
from specdec_jax.models.products import dot_general, split_heads, tied_logits

Cache = dict[str, Any]


def _dense(cfg: GPT2Config, features: int, name: str, scale: float = 1.0):
  return nn.Dense(features, dtype=cfg.dtype, name=name, dot_general=dot_general,
                  kernel_init=nn.initializers.normal(0.02 * scale))


def _norm(cfg: GPT2Config, x, name: str):
  """Layer norm with bias, float32 inside."""
  norm = nn.LayerNorm(epsilon=cfg.layer_norm_epsilon, dtype=jnp.float32, name=name)
  return norm(x.astype(jnp.float32)).astype(cfg.dtype)


class Attention(nn.Module):
  """Multi-head self-attention over a cache, logits scaled by D ** -0.5."""

  config: GPT2Config

  @nn.compact
  def __call__(self, x, mask, positions, cache, deterministic=True):
    """[B, T, E] at positions [B]...; additive mask [B, 1, T, L]. Returns [B, T, E] and the cache."""
    cfg = self.config
    query, keys, values = (split_heads(_dense(cfg, cfg.emb_dim, n)(x), cfg.num_heads)
                           for n in ('query', 'key', 'value'))
    if cache is not None:
      keys = cache_lib.write(cache['key'], keys, positions)
      values = cache_lib.write(cache['value'], values, positions)
    logits = jnp.einsum('bhtd,bhkd->bhtk', query, keys, preferred_element_type=jnp.float32)
    weights = jax.nn.softmax(logits * query.shape[-1] ** -0.5 + mask, axis=-1).astype(cfg.dtype)
    weights = nn.Dropout(cfg.dropout_rate)(weights, deterministic=deterministic)
    mixed = jnp.einsum('bhtk,bhkd->bhtd', weights, values)
    mixed = mixed.transpose(0, 2, 1, 3).reshape(*x.shape[:2], -1)
    # Projections back into the residual stream start smaller, the deeper the model.
    out = _dense(cfg, cfg.emb_dim, 'out', (2 * cfg.num_layers) ** -0.5)(mixed)
    return out, {'key': keys, 'value': values}


class MLP(nn.Module):
  config: GPT2Config

  @nn.compact
  def __call__(self, x):
    cfg = self.config
    hidden = ACTIVATIONS[cfg.activation](_dense(cfg, cfg.mlp_dim, 'wi')(x))
    return _dense(cfg, cfg.emb_dim, 'wo', (2 * cfg.num_layers) ** -0.5)(hidden)


class Layer(nn.Module):
  config: GPT2Config

  @nn.compact
  def __call__(self, x, mask, positions, cache, deterministic=True):
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate)
    h, cache = Attention(cfg, name='self_attention')(
        _norm(cfg, x, 'pre_attention_layer_norm'), mask, positions, cache, deterministic)
    x += drop(h, deterministic=deterministic)
    h = MLP(cfg, name='mlp')(_norm(cfg, x, 'pre_mlp_layer_norm'))
    return x + drop(h, deterministic=deterministic), cache


class Decoder(nn.Module):
  config: GPT2Config

  @nn.compact
  def __call__(self, x, positions, caches, deterministic=True):
    """[B, T, E] from positions [B] on -> [B, T, E] and caches."""
    cfg = self.config
    x = nn.Dropout(cfg.dropout_rate)(x, deterministic=deterministic)
    num_keys = x.shape[1] if caches is None else caches[0]['key'].shape[2]
    queries = positions[:, None] + jnp.arange(x.shape[1])
    mask = cache_lib.causal_mask(queries, num_keys)[:, None]
    updated = []
    for i in range(cfg.num_layers):
      x, cache = Layer(cfg, name=f'layers_{i}')(
          x, mask, positions, None if caches is None else caches[i], deterministic)
      updated.append(cache)
    return _norm(cfg, x, 'decoder_norm'), updated


class GPT2(nn.Module):
  """The decoder-only model: teacher-forced (`__call__`), or `prefill` and `step`."""

  config: GPT2Config

  def setup(self):
    cfg = self.config
    self.token_embedder = nn.Embed(cfg.vocab_size, cfg.emb_dim, dtype=cfg.dtype,
                                   embedding_init=nn.initializers.normal(0.02))
    self.position_embedder = nn.Embed(cfg.max_positions, cfg.emb_dim, dtype=cfg.dtype,
                                      embedding_init=nn.initializers.normal(0.01))
    self.decoder = Decoder(cfg)

  def __call__(self, tokens, deterministic=True):
    """Teacher-forced float32 logits [B, T, V] of int32 [B, T]."""
    start = jnp.zeros(tokens.shape[0], jnp.int32)
    return self._decode(None, tokens, start, deterministic)[0]

  def prefill(self, tokens, cache_length: int) -> Cache:
    """A cache of static length that holds the prompts, int32 [B, P], from position 0 on.

    What a shorter prompt's padding left in it is written again before it is read.
    """
    cfg = self.config
    shape = (tokens.shape[0], cfg.num_heads, cache_length, cfg.head_dim)
    empty = lambda: {'key': jnp.zeros(shape, cfg.dtype), 'value': jnp.zeros(shape, cfg.dtype)}
    caches = [empty() for _ in range(cfg.num_layers)]
    start = jnp.zeros(tokens.shape[0], jnp.int32)
    return {'self': self._decode(caches, tokens, start)[1]}

  def step(self, cache: Cache, tokens, positions):
    """As `t5.T5.step`: int32 [B, T] from positions [B]; float32 logits [B, T, V] and the cache."""
    logits, updated = self._decode(cache['self'], tokens, positions)
    return logits, {'self': updated}

  def _decode(self, caches, tokens, positions, deterministic=True):
    cfg = self.config
    places = positions[:, None] + jnp.arange(tokens.shape[1])
    # A block may reach past the last position; what stands there is never emitted.
    places = jnp.minimum(places, cfg.max_positions - 1)
    x = self.token_embedder(tokens) + self.position_embedder(places)
    x, caches = self.decoder(x, positions, caches, deterministic)
    embedding = self.token_embedder.embedding.astype(cfg.dtype)
    return tied_logits(x, embedding), caches
