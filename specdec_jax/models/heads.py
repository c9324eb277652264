"""Small networks that read a target's last hidden states and say what it will say next; its own vocabulary product
makes logits of what they return.

Dimension names: B batch, T places, E hidden width of the target, W width of the heads, S encoder length.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import linen as nn
from jaxtyping import Array, Float, Int

from specdec_jax import checks
from specdec_jax.models import cache as cache_lib, config_checks
from specdec_jax.models.config import T5Config
from specdec_jax.models.t5 import DecoderLayer
from specdec_jax.models.t5_layers import RelativeBias, RMSNorm
from specdec_jax.models.visibility import Visibility

Cache = dict[str, Any]


@dataclasses.dataclass(frozen=True, kw_only=True)
class HeadsConfig:
  """Static description of heads on a target.

  Attributes:
    kind: 'parallel', one head for each token of a draft, all at once (Blockwise Parallel Decoding, Stern et al., 2018;
      Medusa, Cai et al., 2024); or 'layer', a small decoder run token by token (EAGLE, Li et al., 2024).
    hidden_dim, vocab_size: of the target (its emb_dim and logits); 0 is for the train_heads run to fill in.
    width: of what is in between.
    count: of parallel heads: the longest draft.
    num_layers, num_heads, head_dim, mlp_dim: of the small decoder.
    encoded: whether the small decoder attends to the target's encoder output; not of a decoder-only target.
    dtype: of weights and activations in a decode.
  """

  kind: str = 'layer'
  hidden_dim: int = 0
  vocab_size: int = 0
  width: int
  count: int = 4
  num_layers: int = 1
  num_heads: int = 4
  head_dim: int = 64
  mlp_dim: int = 512
  encoded: bool = True
  dtype: str = 'float32'

  def __post_init__(self):
    checks.choice('HeadsConfig.kind', self.kind, ('parallel', 'layer'))
    config_checks.check_fields(self, {
        'hidden_dim': config_checks.between(0, config_checks.MOST_WIDTH),
        'vocab_size': config_checks.between(0, config_checks.MOST_ROWS), 'width': config_checks.width,
        'count': config_checks.between(1, checks.MOST_DRAFTED), 'num_layers': config_checks.layers,
        'num_heads': config_checks.width, 'head_dim': config_checks.width, 'mlp_dim': config_checks.width,
        'encoded': checks.flag, 'dtype': config_checks.dtype})

  @property
  def description(self) -> str:
    what = (f'{self.count} parallel heads' if self.kind == 'parallel' else
            f'{self.num_layers} decoder layer{"s" if self.num_layers > 1 else ""} on the hidden states')
    return f'{what} of width {self.width}'

  @property
  def decoder(self) -> T5Config:
    """The sizes of the small decoder's layers."""
    return T5Config(emb_dim=self.width, num_heads=self.num_heads, head_dim=self.head_dim, mlp_dim=self.mlp_dim,
                    num_encoder_layers=1, num_decoder_layers=self.num_layers, dtype=self.dtype)


class ParallelHeads(nn.Module):
  """Head i: the hidden state that is to come i + 1 places later, from the last one and the token after it."""

  config: HeadsConfig

  @nn.compact
  def __call__(self, hidden: Float[Array, '*B E'], embedded: Float[Array, '*B E']) -> Float[Array, '*B count E']:
    cfg = self.config
    joined = _joined(cfg, hidden, embedded)
    found = []
    for i in range(cfg.count):
      inner = nn.silu(_dense(cfg, cfg.width, f'heads_{i}_in')(joined))
      found.append(hidden.astype(cfg.dtype) + _dense(cfg, cfg.hidden_dim, f'heads_{i}_out')(inner))
    return jnp.stack(found, axis=-2)


class DraftLayers(nn.Module):
  """A small decoder: from the hidden state before each token, and the token, the hidden state at it."""

  config: HeadsConfig

  def setup(self):
    cfg = self.config
    self.join = _dense(cfg, cfg.width)
    self.norms = RMSNorm(cfg.decoder), RMSNorm(cfg.decoder)
    self.relpos_bias = RelativeBias(cfg.decoder, False)
    self.layers = [DecoderLayer(cfg.decoder) for _ in range(cfg.num_layers)]
    self.decoder_norm = RMSNorm(cfg.decoder)
    self.wo = _dense(cfg, cfg.hidden_dim)

  def prefill(self, encoded: Float[Array, 'B S E'] | None, visible, batch: int, cache_length: int) -> Cache:
    """Cross-attention's keys and values, once for a request, and an empty cache.

    Args:
      encoded: the target's encoder output; None of a decoder-only target.
      visible: bool [B, S], what of it is no padding.
      batch: B.
      cache_length: slots.
    """
    cfg = self.config
    cross = None if encoded is None else [
        {'key': k, 'value': v} for k, v in (
            layer.encoder_decoder_attention.keys_values(encoded.astype(cfg.dtype)) for layer in self.layers)]
    return {'cross': cross, 'cross_visible': None if encoded is None else visible,
            'self': cache_lib.empty(batch, cfg.num_layers, cfg.num_heads, cache_length, cfg.head_dim, cfg.dtype)}

  def step(self, cache: Cache, hidden: Float[Array, 'B T E'], embedded: Float[Array, 'B T E'],
           positions: Int[Array, ' B']) -> tuple[Float[Array, 'B T E'], Cache]:
    """T tokens a row from its own position on, each with the hidden state before it, as `t5.T5.step`."""
    length = cache['self'][0]['key'].shape[2]
    return self._run(cache, hidden, embedded, Visibility.of_blocks(positions, hidden.shape[1], length), positions)

  def tree_step(self, cache: Cache, hidden, embedded, positions, slots, key_positions,
                visible) -> tuple[Float[Array, 'B n E'], Cache]:
    """As `t5.T5.tree_step`."""
    return self._run(cache, hidden, embedded, Visibility.of_tree(positions, key_positions, visible), slots)

  def _run(self, cache, hidden, embedded, seen, slots):
    cfg = self.config
    x = self.join(_concatenated(self.norms, cfg, hidden, embedded))
    bias = self.relpos_bias(seen.queries, seen.keys)
    updated, visible = [], cache['cross_visible']
    for i, layer in enumerate(self.layers):
      cross = None if cache['cross'] is None else cache['cross'][i]
      x, new, _ = layer(x, bias, seen, cross, None if visible is None else visible[:, None, None],
                        cache['self'][i], slots)
      updated.append(new)
    return hidden.astype(cfg.dtype) + self.wo(self.decoder_norm(x)), {**cache, 'self': updated}

  def __call__(self, hidden, embedded, encoded, visible):
    """Whole texts: [B, T, E] of the places before and of the tokens -> [B, T, E]."""
    batch, length = hidden.shape[:2]
    cache = self.prefill(encoded, visible, batch, length)
    return self.step(cache, hidden, embedded, jnp.zeros(batch, jnp.int32))[0]


def heads_network(config: HeadsConfig) -> nn.Module:
  """The Flax module that belongs to a configuration."""
  return (ParallelHeads if config.kind == 'parallel' else DraftLayers)(config)


def initial(config: HeadsConfig, key: jax.Array) -> Any:
  """Random weights."""
  hidden = jnp.zeros((1, 1, config.hidden_dim))
  encoded = (hidden, jnp.ones((1, 1), bool)) if config.encoded else (None, None)
  return heads_network(config).init(key, hidden, hidden, *(() if config.kind == 'parallel' else encoded))['params']


def _dense(cfg: HeadsConfig, features: int, name: str | None = None) -> nn.Dense:
  return nn.Dense(features, use_bias=False, dtype=cfg.dtype, name=name)


def _joined(cfg: HeadsConfig, hidden, embedded):
  return _concatenated((RMSNorm(cfg.decoder, name='norms_0'), RMSNorm(cfg.decoder, name='norms_1')), cfg, hidden,
                       embedded)


def _concatenated(norms, cfg: HeadsConfig, hidden, embedded):
  """Both at the same scale, side by side: [..., 2 E]."""
  return jnp.concatenate([norms[0](hidden), norms[1](embedded)], axis=-1).astype(cfg.dtype)
