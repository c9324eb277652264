"""GPT-2 in Flax Linen with an explicit, rewindable cache.

Dimension names: B batch, T tokens of one pass, L cache length, H heads, D head_dim,
E emb_dim, V vocab_size.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Bool, Float32, Int

from specdec_jax.models import cache as cache_lib, hidden as hidden_lib
from specdec_jax.models.activations import ACTIVATIONS
from specdec_jax.models.attention import attention_weights, finite_values, mix, seen_values
from specdec_jax.models.config import GPT2Config
from specdec_jax.models.products import split_heads
from specdec_jax.models.projections import dense, embed
from specdec_jax.models.visibility import Visibility

Cache = dict[str, Any]


def _dense(cfg: GPT2Config, features: int, name: str, scale: float = 1.0):
  return dense(cfg, features, 0.02 * scale, name, use_bias=True)


def _norm(cfg: GPT2Config, x, name: str):
  """Layer norm with bias, float32 inside."""
  norm = nn.LayerNorm(epsilon=cfg.layer_norm_epsilon, dtype=jnp.float32, name=name)
  return norm(x.astype(jnp.float32)).astype(cfg.dtype)


class Attention(nn.Module):
  """Multi-head self-attention over a cache, logits scaled by D ** -0.5."""

  config: GPT2Config

  @nn.compact
  def __call__(self, x, seen, cache, slots, deterministic=True):
    """[B, T, E], `Visibility` -> [B, T, E], the cache and what was written to it; as `t5.DecoderLayer`."""
    cfg = self.config
    query, keys, values = (split_heads(_dense(cfg, cfg.emb_dim, n)(x), cfg.num_heads)
                           for n in ('query', 'key', 'value'))
    keys, values = finite_values(keys, values)
    block = {'key': keys, 'value': values}
    if cache is not None:
      cache = jax.tree.map(lambda old, new: cache_lib.write(old, new, slots), cache, block)
      keys, values = cache['key'], seen_values(cache['value'], seen.visible)
    weights = attention_weights(query, keys, seen.visible, scale=query.shape[-1] ** -0.5).astype(cfg.dtype)
    mixed = mix(nn.Dropout(cfg.dropout_rate)(weights, deterministic=deterministic), values)
    # Projections back into the residual stream start smaller, the deeper the model.
    out = _dense(cfg, cfg.emb_dim, 'out', (2 * cfg.num_layers) ** -0.5)(mixed)
    return out, cache, block


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
  def __call__(self, x, seen, cache, slots, deterministic=True):
    cfg = self.config
    drop = nn.Dropout(cfg.dropout_rate)
    h, cache, block = Attention(cfg, name='self_attention')(
        _norm(cfg, x, 'pre_attention_layer_norm'), seen, cache, slots, deterministic)
    x += drop(h, deterministic=deterministic)
    h = MLP(cfg, name='mlp')(_norm(cfg, x, 'pre_mlp_layer_norm'))
    return x + drop(h, deterministic=deterministic), cache, block


class Decoder(nn.Module):
  config: GPT2Config

  @nn.compact
  def __call__(self, x, seen, caches, slots, deterministic=True):
    """[B, T, E], `Visibility` -> [B, T, E], caches and what was written to them; slots [B]."""
    cfg = self.config
    x = nn.Dropout(cfg.dropout_rate)(x, deterministic=deterministic)
    updated, blocks = [], []
    for i in range(cfg.num_layers):
      x, cache, block = Layer(cfg, name=f'layers_{i}')(
          x, seen, None if caches is None else caches[i], slots, deterministic)
      updated.append(cache)
      blocks.append(block)
    return _norm(cfg, x, 'decoder_norm'), updated, blocks


class GPT2(nn.Module):
  """The decoder-only model: teacher-forced (`__call__`), or `prefill` and `step`."""

  config: GPT2Config

  def setup(self):
    cfg = self.config
    self.token_embedder = embed(cfg, 0.02)
    self.position_embedder = nn.Embed(cfg.max_positions, cfg.emb_dim, dtype=cfg.dtype,
                                      embedding_init=nn.initializers.normal(0.01))
    self.decoder = Decoder(cfg)

  def __call__(self, tokens: Int[Array, 'B T'], deterministic: bool = True) -> Float32[Array, 'B T V']:
    """Teacher-forced logits."""
    return self._decode(None, tokens, Visibility.of_texts(*tokens.shape), None, deterministic)[0]

  def prefill(self, tokens: Int[Array, 'B P'], cache_length: int) -> Cache:
    """A cache of static length that holds the prompts from position 0 on.

    What a shorter prompt's padding left in it is written again before it is read.
    """
    cfg = self.config
    cache = cache_lib.empty(len(tokens), cfg.num_layers, cfg.num_heads, cache_length, cfg.head_dim, cfg.dtype)
    return self.step({'self': cache}, tokens, jnp.zeros(len(tokens), jnp.int32))[1]

  def step(self, cache: Cache, tokens: Int[Array, 'B T'],
           positions: Int[Array, ' B']) -> tuple[Float32[Array, 'B T V'], Cache]:
    """As `t5.T5.step`."""
    length = cache['self'][0]['key'].shape[2]
    seen = Visibility.of_blocks(positions, tokens.shape[1], length)
    logits, updated, _ = self._decode(cache['self'], tokens, seen, positions)
    return logits, {'self': updated}

  def tree_step(self, cache: Cache, tokens: Int[Array, 'B n'], positions: Int[Array, 'B n'], slots: Int[Array, ' B'],
                key_positions: Int[Array, 'B K'],
                visible: Bool[Array, 'B n K']) -> tuple[Float32[Array, 'B n V'], Cache, list[cache_lib.Pair]]:
    """As `t5.T5.tree_step`."""
    seen = Visibility.of_tree(positions, key_positions, visible)
    logits, updated, block = self._decode(cache['self'], tokens, seen, slots)
    return logits, {'self': updated}, block

  def embed(self, tokens: Int[Array, '*shape']) -> Array:
    """[..., E], without positions."""
    return self.token_embedder(tokens)

  def to_logits(self, hidden) -> Array:
    """Last hidden states [..., E] -> float32 logits [..., V]."""
    return self.token_embedder.logits(hidden)

  def _decode(self, caches, tokens, seen, slots, deterministic=True):
    cfg = self.config
    # A block may reach past the last position; what stands there is never emitted.
    places = jnp.minimum(seen.queries, cfg.max_positions - 1)
    x = self.token_embedder(tokens) + self.position_embedder(places)
    x, caches, blocks = self.decoder(x, seen, caches, slots, deterministic)
    hidden_lib.tell(self, hidden_lib.LAST, x)
    return self.to_logits(x), caches, blocks
