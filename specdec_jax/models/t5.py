"""T5 in Flax Linen with T5X's parameter tree and an explicit, rewindable cache.

Dimension names: B batch, S encoder length, T decoder tokens of one pass,
L cache length, H heads, D head_dim, E emb_dim, V vocab_size.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jax import lax
from jaxtyping import Array, Bool, Float32, Int

from specdec_jax.models import cache as cache_lib, hidden as hidden_lib
from specdec_jax.models.activations import ACTIVATIONS
from specdec_jax.models.attention import attention_weights, finite_values, mix, seen_values
from specdec_jax.models.config import T5Config
from specdec_jax.models.products import dot_general, split_heads, tied_logits
from specdec_jax.models.visibility import Visibility

Cache = dict[str, Any]


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


def _dense(cfg, features, fan_in, name=None):
  """A bias-free projection; fan_in sets T5's initial scale."""
  return nn.Dense(features, use_bias=False, dtype=cfg.dtype, name=name, dot_general=dot_general,
                  kernel_init=nn.initializers.normal(fan_in ** -0.5))


class Attention(nn.Module):
  """Multi-head attention without scaling of the logits, as in T5."""

  config: T5Config

  def setup(self):
    cfg = self.config
    # T5 folds 1/sqrt(D) into the query's initial scale.
    self.query = _dense(cfg, cfg.attention_dim, cfg.emb_dim * cfg.head_dim)
    self.key = _dense(cfg, cfg.attention_dim, cfg.emb_dim)
    self.value = _dense(cfg, cfg.attention_dim, cfg.emb_dim)
    self.out = _dense(cfg, cfg.emb_dim, cfg.attention_dim)
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
      hidden *= ACTIVATIONS[activation](_dense(cfg, cfg.mlp_dim, cfg.emb_dim, name)(x))
    hidden = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))(hidden, deterministic=deterministic)
    return _dense(cfg, cfg.emb_dim, cfg.mlp_dim, 'wo')(hidden)


class EncoderLayer(nn.Module):
  config: T5Config

  @nn.compact
  def __call__(self, x, bias, visible, deterministic=True):
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
    if cfg.relative_bias_per_layer:
      positions = jnp.arange(x.shape[1])
      bias = RelativeBias(cfg, True, name='relpos_bias')(positions[None], positions)
    attention = Attention(cfg, name='attention')
    h = RMSNorm(cfg, name='pre_attention_layer_norm')(x)
    keys, values = attention.keys_values(h)
    h = attention(h, keys, values, visible, bias, deterministic)
    x += drop(h, deterministic=deterministic)
    h = MLP(cfg, name='mlp')(RMSNorm(cfg, name='pre_mlp_layer_norm')(x), deterministic)
    return x + drop(h, deterministic=deterministic)


class Encoder(nn.Module):
  config: T5Config

  @nn.compact
  def __call__(self, embedded, visible, deterministic=True):
    """[B, S, E] and bool [B, 1, 1, S] -> [B, S, E]."""
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
    x = drop(embedded, deterministic=deterministic)
    bias = None
    if not cfg.relative_bias_per_layer:
      positions = jnp.arange(x.shape[1])
      bias = RelativeBias(cfg, True, name='relpos_bias')(positions[None], positions)
    for i in range(cfg.num_encoder_layers):
      x = EncoderLayer(cfg, name=f'layers_{i}')(x, bias, visible, deterministic)
    x = RMSNorm(cfg, name='encoder_norm')(x)
    return drop(x, deterministic=deterministic)


class DecoderLayer(nn.Module):
  config: T5Config

  def setup(self):
    cfg = self.config
    if cfg.relative_bias_per_layer:
      self.relpos_bias = RelativeBias(cfg, False)
    self.pre_self_attention_layer_norm = RMSNorm(cfg)
    self.self_attention = Attention(cfg)
    self.pre_cross_attention_layer_norm = RMSNorm(cfg)
    self.encoder_decoder_attention = Attention(cfg)
    self.pre_mlp_layer_norm = RMSNorm(cfg)
    self.mlp = MLP(cfg)
    self.dropout = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))

  def __call__(self, x, bias, seen, cross, cross_visible, cache, slots, deterministic=True):
    """One layer over T new tokens.

    Args:
      x: [B, T, E].
      bias: float32 [B, H, T, K], or None where every layer has its own.
      seen: `Visibility`.
      cross: {'key', 'value'} of the encoder's output; cross_visible: bool [B, 1, 1, S]. They may have fewer rows
        than x: of each, as many rows of x after one another. None is a layer without cross-attention.
      cache: {'key', 'value'} [B, H, K, D], or None in teacher forcing: the keys are those of the T tokens themselves.
      slots: int32 [B], where in the cache the T tokens are written from.

    Returns:
      [B, T, E], the cache, and what was written to it.
    """
    h = self.pre_self_attention_layer_norm(x)
    keys, values = self.self_attention.keys_values(h)
    block = {'key': keys, 'value': values}
    if cache is not None:
      cache = jax.tree.map(lambda old, new: cache_lib.write(old, new, slots), cache, block)
      keys, values = cache['key'], seen_values(cache['value'], seen.visible)
    if self.config.relative_bias_per_layer:
      bias = self.relpos_bias(seen.queries, seen.keys)
    h = self.self_attention(h, keys, values, seen.visible, bias, deterministic)
    x += self.dropout(h, deterministic=deterministic)
    if cross is not None:
      h = self.pre_cross_attention_layer_norm(x)
      folded = h.reshape(len(cross['key']), -1, h.shape[-1])  # rows of one input are queries of one row
      h = self.encoder_decoder_attention(folded, cross['key'], cross['value'], cross_visible,
                                         deterministic=deterministic).reshape(h.shape)
      x += self.dropout(h, deterministic=deterministic)
    h = self.mlp(self.pre_mlp_layer_norm(x), deterministic)
    return x + self.dropout(h, deterministic=deterministic), cache, block


class Decoder(nn.Module):
  config: T5Config

  def setup(self):
    cfg = self.config
    if not cfg.relative_bias_per_layer:
      self.relpos_bias = RelativeBias(cfg, False)
    self.layers = [DecoderLayer(cfg) for _ in range(cfg.num_decoder_layers)]
    self.decoder_norm = RMSNorm(cfg)
    self.dropout = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
    if not cfg.logits_via_embedding:
      self.logits_dense = nn.Dense(cfg.vocab_size, use_bias=False, dtype=cfg.dtype,
                                   kernel_init=nn.initializers.normal(cfg.emb_dim ** -0.5),
                                   dot_general=functools.partial(
                                       dot_general, preferred_element_type=jnp.float32))

  def cross(self, encoded):
    """Cross-attention keys and values of every layer, once for a request."""
    pairs = [layer.encoder_decoder_attention.keys_values(encoded) for layer in self.layers]
    return [{'key': k, 'value': v} for k, v in pairs]

  def __call__(self, embedded, seen, cross, cross_visible, caches, slots, embedding, deterministic=True):
    """[B, T, E] -> float32 logits [B, T, V], caches and blocks; other arguments as in `DecoderLayer`, one a layer."""
    cfg = self.config
    x = self.dropout(embedded, deterministic=deterministic)
    bias = None if cfg.relative_bias_per_layer else self.relpos_bias(seen.queries, seen.keys)
    updated, blocks = [], []
    for i, layer in enumerate(self.layers):
      x, cache, block = layer(x, bias, seen, cross[i], cross_visible, None if caches is None else caches[i],
                              slots, deterministic)
      updated.append(cache)
      blocks.append(block)
    x = self.dropout(self.decoder_norm(x), deterministic=deterministic)
    hidden_lib.tell(self, hidden_lib.LAST, x)
    return self.logits(x, embedding), updated, blocks

  def logits(self, x, embedding):
    """Last hidden states [..., E] -> float32 [..., V]."""
    cfg = self.config
    if not cfg.logits_via_embedding:
      return self.logits_dense(x)
    if cfg.scale_tied_logits:
      x = x * cfg.emb_dim ** -0.5
    return tied_logits(x, embedding.astype(cfg.dtype))


class T5(nn.Module):
  """The encoder-decoder: teacher-forced (`__call__`), or `prefill` once and `step` at will."""

  config: T5Config

  def setup(self):
    cfg = self.config
    self.token_embedder = nn.Embed(cfg.vocab_size, cfg.emb_dim, dtype=cfg.dtype,
                                   embedding_init=nn.initializers.normal(1.0))
    self.encoder = Encoder(cfg)
    self.decoder = Decoder(cfg)

  def _encode(self, encoder_tokens, deterministic=True):
    visible = encoder_tokens != self.config.pad_id
    encoded = self.encoder(self.token_embedder(encoder_tokens), visible[:, None, None], deterministic)
    hidden_lib.tell(self, hidden_lib.ENCODED, encoded)
    return {'cross': self.decoder.cross(encoded), 'cross_visible': visible}

  def __call__(self, encoder_tokens: Int[Array, 'B S'], decoder_tokens: Int[Array, 'B T'],
               deterministic: bool = True) -> Float32[Array, 'B T V']:
    """Teacher-forced logits; padding of the encoder's tokens is pad_id."""
    encoded = self._encode(encoder_tokens, deterministic)
    seen = Visibility.of_texts(*decoder_tokens.shape)
    return self._decode(encoded, None, decoder_tokens, seen, None, deterministic)[0]

  def prefill(self, encoder_tokens: Int[Array, 'B S'], cache_length: int) -> Cache:
    """Runs the encoder and makes an empty cache of static length.

    cache_length must leave room for the longest block written at the last
    position: a write past the end would silently move to an earlier slot.
    """
    cfg = self.config
    return {**self._encode(encoder_tokens),
            'self': cache_lib.empty(len(encoder_tokens), cfg.num_decoder_layers, cfg.num_heads, cache_length,
                                    cfg.head_dim, cfg.dtype)}

  def step(self, cache: Cache, tokens: Int[Array, 'B T'],
           positions: Int[Array, ' B']) -> tuple[Float32[Array, 'B T V'], Cache]:
    """T tokens a row, each row from its own position.

    Args:
      cache: from `prefill` or an earlier step.
      tokens: fed at positions[b] to positions[b] + T - 1.
      positions: a smaller position than before rewinds the row.

    Returns:
      Logits for the token after each fed one, and the cache.
    """
    length = cache['self'][0]['key'].shape[2]
    logits, updated, _ = self._decode(
        cache, cache['self'], tokens, Visibility.of_blocks(positions, tokens.shape[1], length), positions)
    return logits, {**cache, 'self': updated}

  def tree_step(self, cache: Cache, tokens: Int[Array, 'B n'], positions: Int[Array, 'B n'], slots: Int[Array, ' B'],
                key_positions: Int[Array, 'B K'],
                visible: Bool[Array, 'B n K']) -> tuple[Float32[Array, 'B n V'], Cache, list[cache_lib.Pair]]:
    """n tokens a row that may continue different texts, such as the nodes of a tree.

    Args:
      cache: from `prefill` or an earlier step, of K slots.
      tokens, positions: each token's absolute position in its own text.
      slots: where the n tokens of a row are written from.
      key_positions: the position of what each slot holds after that.
      visible: the slots that each token sees: its own and those before it in its text.

    Returns:
      Logits for the token after each, the cache, and the block for `cache.commit`.
    """
    seen = Visibility.of_tree(positions, key_positions, visible)
    logits, updated, block = self._decode(cache, cache['self'], tokens, seen, slots)
    return logits, {**cache, 'self': updated}, block

  def embed(self, tokens: Int[Array, '*shape']) -> Array:
    """[..., E]."""
    return self.token_embedder(tokens)

  def to_logits(self, hidden) -> Array:
    """Last hidden states [..., E] -> float32 logits [..., V]."""
    return self.decoder.logits(hidden, self.token_embedder.embedding)

  def _decode(self, encoded, caches, tokens, seen, slots, deterministic=True):
    cross_visible = encoded['cross_visible'][:, None, None]
    return self.decoder(self.token_embedder(tokens), seen, encoded['cross'], cross_visible, caches, slots,
                        self.token_embedder.embedding, deterministic)
