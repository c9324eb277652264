"""T5 in Flax Linen with T5X's parameter tree and an explicit, rewindable cache.

Dimension names: B batch, S encoder length, T decoder tokens of one pass,
L cache length, H heads, D head_dim, E emb_dim, V vocab_size.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float32, Int

from specdec_jax.models import cache as cache_lib, hidden as hidden_lib
from specdec_jax.models.attention import seen_values
from specdec_jax.models.config import T5Config
from specdec_jax.models.longt5 import LongAttention, Surroundings
from specdec_jax.models.projections import dense, embed
from specdec_jax.models.t5_layers import MLP, Attention, RelativeBias, RMSNorm
from specdec_jax.models.visibility import Visibility

Cache = dict[str, Any]


class EncoderLayer(nn.Module):
  config: T5Config

  @nn.compact
  def __call__(self, x, bias, visible, deterministic=True):
    """[B, S, E]; bias float32 [B, H, S, S] and visible bool [B, 1, 1, S], or `longt5.Surroundings` in place of both."""
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
    h = RMSNorm(cfg, name='pre_attention_layer_norm')(x)
    if isinstance(visible, Surroundings):
      h = LongAttention(cfg, name='attention')(h, visible, deterministic)
    else:
      if cfg.relative_bias_per_layer:
        positions = jnp.arange(x.shape[1])
        bias = RelativeBias(cfg, True, name='relpos_bias')(positions[None], positions)
      attention = Attention(cfg, name='attention')
      keys, values = attention.keys_values(h)
      h = attention(h, keys, values, visible, bias, deterministic)
    x += drop(h, deterministic=deterministic)
    h = MLP(cfg, name='mlp')(RMSNorm(cfg, name='pre_mlp_layer_norm')(x), deterministic)
    return x + drop(h, deterministic=deterministic)


class Encoder(nn.Module):
  config: T5Config

  @nn.compact
  def __call__(self, embedded, visible, deterministic=True):
    """[B, S, E] and bool [B, S] -> [B, S, E]."""
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate, broadcast_dims=(-2,))
    x = drop(embedded, deterministic=deterministic)
    bias: Any = None
    if cfg.encoder_attention != 'full':
      with_globals = cfg.encoder_attention == 'transient_global'
      seen = Surroundings.of(cfg, visible, RelativeBias(cfg, True, name='relpos_bias'),
                             RelativeBias(cfg, True, name='side_relpos_bias') if with_globals else None)
    else:
      seen = visible[:, None, None]
      if not cfg.relative_bias_per_layer:
        positions = jnp.arange(x.shape[1])
        bias = RelativeBias(cfg, True, name='relpos_bias')(positions[None], positions)
    for i in range(cfg.num_encoder_layers):
      x = EncoderLayer(cfg, name=f'layers_{i}')(x, bias, seen, deterministic)
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
      self.logits_dense = dense(cfg, cfg.vocab_size, cfg.emb_dim ** -0.5, float32_result=True)

  def cross(self, encoded):
    """Cross-attention keys and values of every layer, once for a request."""
    pairs = [layer.encoder_decoder_attention.keys_values(encoded) for layer in self.layers]
    return [{'key': k, 'value': v} for k, v in pairs]

  def __call__(self, embedded, seen, cross, cross_visible, caches, slots, tied_logits, deterministic=True):
    """[B, T, E] -> float32 logits [B, T, V], caches and blocks.

    `tied_logits` makes logits of [B, T, E] where they come from the embedding; other arguments as in `DecoderLayer`,
    one a layer.
    """
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
    return self.logits(x, tied_logits), updated, blocks

  def logits(self, x, tied_logits):
    """Last hidden states [..., E] -> float32 [..., V]."""
    cfg = self.config
    if not cfg.logits_via_embedding:
      return self.logits_dense(x)
    if cfg.scale_tied_logits:
      x = x * cfg.emb_dim ** -0.5
    return tied_logits(x)


class T5(nn.Module):
  """The encoder-decoder: teacher-forced (`__call__`), or `prefill` once and `step` at will."""

  config: T5Config

  def setup(self):
    cfg = self.config
    self.token_embedder = embed(cfg, 1.0)
    self.encoder = Encoder(cfg)
    self.decoder = Decoder(cfg)

  def _encode(self, encoder_tokens, deterministic=True):
    visible = encoder_tokens != self.config.pad_id
    encoded = self.encoder(self.token_embedder(encoder_tokens), visible, deterministic)
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
    return self.decoder.logits(hidden, self.token_embedder.logits)

  def _decode(self, encoded, caches, tokens, seen, slots, deterministic=True):
    cross_visible = encoded['cross_visible'][:, None, None]
    return self.decoder(self.token_embedder(tokens), seen, encoded['cross'], cross_visible, caches, slots,
                        self.token_embedder.logits, deterministic)
