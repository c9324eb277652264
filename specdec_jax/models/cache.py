"""What all decoders share about their caches: places are written row by row, and what a rewind leaves is never read.

A cache is a list of {'key', 'value'} [B, H, L, D], one a layer. What a slot holds is known to the pass that reads it:
`visible` alone decides what a query sees, so stale slots need not be removed.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

Pair = dict[str, Float[Array, 'B H L D']]  # 'key' and 'value' of a layer


def empty(batch: int, num_layers: int, num_heads: int, length: int, head_dim: int,
          dtype) -> list[Pair]:
  """A cache of zeros, in which nothing is visible yet."""
  shape = (batch, num_heads, length, head_dim)
  return [{'key': jnp.zeros(shape, dtype), 'value': jnp.zeros(shape, dtype)} for _ in range(num_layers)]


def write(cache: Float[Array, 'B H L D'], new: Float[Array, 'B H T D'],
          slots: Int[Array, ' B']) -> Float[Array, 'B H L D']:
  """Writes T places a row, to the slots from slots[b] on."""
  return jax.vmap(lambda row, block, at: lax.dynamic_update_slice(row, block, (0, at, 0)))(
      cache, new.astype(cache.dtype), slots)


def commit(cache: dict[str, Any], block: list[Pair], nodes: Int[Array, 'B m'],
           slots: Int[Array, ' B']) -> dict[str, Any]:
  """Writes some places of a block to the slots from slots[b] on, in the order of `nodes`.

  Args:
    cache: of a `Model`, with its self-attention under 'self'.
    block: what a pass over n tokens has just written: a list of {'key', 'value'} [B, H, n, D], one a layer.
      They are read from here and not from the cache, so that the compiler needs no copy of the cache.
    nodes: which of the n.
    slots: m slots a row from there on must lie in the cache.

  Returns:
    The cache.
  """
  def one(old, new):
    return write(old, jnp.take_along_axis(new, nodes[:, None, :, None], axis=2), slots)

  return {**cache, 'self': jax.tree.map(one, cache['self'], block)}


def repeat(cache, times: int):
  """A cache in which each row stands `times` times, one after another; of the encoder's output there is one still.

  Rows that share cross-attention are folded into one of more queries; see `t5.DecoderLayer`.
  """
  shared = ('cross', 'cross_visible')
  return {name: part if name in shared else jax.tree.map(lambda x: jnp.repeat(x, times, axis=0), part)
          for name, part in cache.items()}
