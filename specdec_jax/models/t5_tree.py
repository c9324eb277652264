"""A decoder pass over a tree of tokens: what each token sees is said by a mask, not by its slot.

B rows, M nodes of one pass, K cache slots. A slot's place in the cache says nothing:
its position in the text comes with the call, so that several continuations of one
text lie side by side in one row and share its encoder's keys and values.
"""

import jax
import jax.numpy as jnp
from jax import lax

from specdec_jax.models import cache as cache_lib, t5 as t5_lib


def step(t5: t5_lib.T5, cache, tokens, positions, slot, key_positions, visible):
  """Feeds M nodes a row into the slots from `slot` on; a method of `T5`.

  Args:
    t5: the module, bound.
    cache: from `T5.prefill`; its length is K.
    tokens, positions: int32 [B, M], absolute positions in the text.
    slot: int32 scalar, the same in every row.
    key_positions: int32 [B, K], position of what each slot holds.
    visible: bool [B, M, K], the node itself and those before it in its text.

  Returns:
    float32 logits [B, M, V] for the token after each node, and the cache.
  """
  mask = jnp.where(visible, 0.0, cache_lib.MASKED)[:, None]
  write = lambda old, new: lax.dynamic_update_slice(old, new.astype(old.dtype), (0, 0, slot, 0))
  embedder = t5.token_embedder
  logits, updated = t5.decoder.attend(
      embedder(tokens), positions, key_positions[:, None], mask, write, cache['cross'],
      cache['cross_mask'], cache['self'], embedder.embedding)
  return logits, {**cache, 'self': updated}


def copy(cache, sources, to):
  """Copies the slots sources (int32 [B, N]) to the N slots from to (int32 [B]) on."""
  def one(leaf_HxKxD, sources_N, to):
    return lax.dynamic_update_slice(leaf_HxKxD, leaf_HxKxD[:, sources_N], (0, to, 0))

  return {**cache, 'self': jax.tree.map(
      lambda leaf: jax.vmap(one)(leaf, sources, to), cache['self'])}
