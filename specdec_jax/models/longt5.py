"""LongT5's encoder: attention to what is near and, where the model has them, to global tokens made of blocks of inputs.

Guo et al., LongT5 (arXiv 2112.07916), section 3: each token sees those at most `local_radius` away [3.1.1]; transient
global attention adds the sums of blocks of `global_block_size` tokens, made anew in every layer [3.1.2]. Time and
memory grow with the length, not with its square (with global tokens by the length times a sixteenth of it).

Dimension names: B batch, S encoder length, N blocks of L = local_radius + 1 tokens, W = 3L keys of a block and its
neighbours, G global tokens, H heads, D head_dim, E emb_dim.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct
from jaxtyping import Array, Bool, Float, Float32, Int

from specdec_jax.models.attention import MASKED
from specdec_jax.models.config import T5Config
from specdec_jax.models.products import split_heads
from specdec_jax.models.t5_layers import Attention, RMSNorm


class Surroundings(struct.PyTreeNode):
  """What each input token sees of the others; the same in all layers.

  Attributes:
    near: the keys of a token's own block and of its neighbours that it sees.
    near_bias: of each token of a block for each of these.
    block_ids: the global token that each token is part of, -1 where none; None without global tokens.
    globals_seen: the global tokens that a row has.
    global_bias: of each token for each of these.
  """

  near: Bool[Array, 'B N 1 L W']
  near_bias: Float32[Array, '1 1 H L W']
  block_ids: Int[Array, 'B S'] | None
  globals_seen: Bool[Array, 'B 1 1 1 G'] | None
  global_bias: Float32[Array, 'B N H L G'] | None

  @classmethod
  def of(cls, config: T5Config, visible: Bool[Array, 'B S'], bias: Callable, global_bias: Callable | None):
    """`bias` and `global_bias` are `RelativeBias`es, of tokens and of global tokens, or None without these."""
    length = config.local_radius + 1
    queries, keys = jnp.arange(length), jnp.arange(-length, 2 * length)
    close = jnp.abs(keys - queries[:, None]) < length
    near = with_neighbours(in_blocks(visible, length))[:, :, None, None] & close
    near_bias = bias(queries[None], keys)[:, None]
    if global_bias is None:
      return cls(near, near_bias, None, None, None)
    ids, seen = global_blocks(visible, config.global_block_size)
    number = seen.shape[1]
    by_distance = global_bias(jnp.zeros((1, 1), jnp.int32), jnp.arange(-number, number + 1))[0, :, 0]  # [H, 2G + 1]
    distances = in_blocks(jnp.arange(number) - ids[..., None] + number, length)  # [B, N, L, G]
    return cls(near, near_bias, ids, seen[:, None, None, None], jnp.moveaxis(by_distance[:, distances], 0, 2))


def global_blocks(visible: Bool[Array, 'B S'], size: int) -> tuple[Int[Array, 'B S'], Bool[Array, 'B G']]:
  """The block that each token is part of, and which of the S // size blocks a row has.

  Tokens after the last whole block of a row are part of it. A row without a whole block has none: -1.
  """
  places = jnp.arange(visible.shape[1])
  whole = jnp.sum(visible & (places % size == size - 1), axis=1, keepdims=True)
  ids = jnp.where(visible, jnp.minimum(places // size, whole - 1), -1)
  return ids, jnp.arange(visible.shape[1] // size) < whole


def in_blocks(x: Array, length: int) -> Array:
  """[B, S, ...] -> [B, N, length, ...], zeros after the end."""
  number = -(-x.shape[1] // length)
  x = jnp.pad(x, [(0, 0), (0, number * length - x.shape[1])] + [(0, 0)] * (x.ndim - 2))
  return x.reshape(x.shape[0], number, length, *x.shape[2:])


def with_neighbours(blocks: Array) -> Array:
  """[B, N, L, ...] -> [B, N, 3L, ...]: the block before, the block and the block after; zeros beyond the ends."""
  padded = jnp.pad(blocks, [(0, 0), (1, 1)] + [(0, 0)] * (blocks.ndim - 2))
  return jnp.concatenate([padded[:, :-2], blocks, padded[:, 2:]], axis=2)


class LongAttention(Attention):
  """Attention of every token to its surroundings."""

  def setup(self):
    super().setup()
    if self.config.encoder_attention == 'transient_global':
      self.T5LayerNorm_0 = RMSNorm(self.config)  # flaxformer's name: of the global tokens

  def __call__(self, x: Float[Array, 'B S E'], around: Surroundings,  # type: ignore[override]
               deterministic: bool = True) -> Float[Array, 'B S E']:
    heads, length = self.config.num_heads, self.config.local_radius + 1
    blocks = lambda y: in_blocks(y.transpose(0, 2, 1, 3), length)  # [B, H, S, D] -> [B, N, L, H, D]
    query = blocks(split_heads(self.query(x), heads))
    keys, values = (with_neighbours(blocks(y)) for y in self.keys_values(x))
    logits = jnp.einsum('bnlhd,bnwhd->bnhlw', query, keys, preferred_element_type=jnp.float32) + around.near_bias
    logits = jnp.where(around.near, logits, MASKED)
    visible = jnp.broadcast_to(around.near, logits.shape)
    if around.block_ids is not None:
      assert around.globals_seen is not None and around.global_bias is not None
      side_keys, side_values = self._of_globals(x, around.block_ids, around.globals_seen.shape[-1])
      side = jnp.einsum('bnlhd,bhgd->bnhlg', query, side_keys, preferred_element_type=jnp.float32) + around.global_bias
      logits = jnp.concatenate([logits, jnp.where(around.globals_seen, side, MASKED)], axis=-1)
      visible = jnp.concatenate([visible, jnp.broadcast_to(around.globals_seen, side.shape)], axis=-1)
    weights = jnp.where(visible, jax.nn.softmax(logits, axis=-1), 0.0).astype(self.config.dtype)
    weights = self.dropout(weights, deterministic=deterministic)
    mixed = jnp.einsum('bnhlw,bnwhd->bnlhd', weights[..., :3 * length], values)
    if around.block_ids is not None:
      mixed += jnp.einsum('bnhlg,bhgd->bnlhd', weights[..., 3 * length:], side_values)
    return self.out(mixed.reshape(x.shape[0], -1, self.config.attention_dim)[:, :x.shape[1]])

  def _of_globals(self, x, block_ids, number: int):
    """Keys and values [B, H, G, D] of the normalised sums of the tokens of each block."""
    members = jax.nn.one_hot(block_ids, number, dtype=x.dtype)  # all zeros for -1
    x = jnp.where(block_ids[..., None] < 0, 0.0, x)  # whatever stands there
    sums = jnp.einsum('bse,bsg->bge', x, members, preferred_element_type=jnp.float32)
    return self.keys_values(self.T5LayerNorm_0(sums))
