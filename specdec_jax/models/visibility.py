"""Which places of a cache each token of a pass sees, and where in its text everything stands."""

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Visibility(NamedTuple):
  """B rows, T tokens of a pass, K cache slots.

  Attributes:
    queries: int32 [B, T], position of each token in its text, from 0.
    keys: int32 [K], or [B, 1, K] where rows differ, position of what each slot holds.
    visible: bool [B, 1, T, K], the slots that each token sees.
  """

  queries: jax.Array
  keys: jax.Array
  visible: jax.Array

  @classmethod
  def of_blocks(cls, positions, num_tokens: int, num_slots: int):
    """Each row's tokens continue its text from positions [B] on; slot k holds position k."""
    queries = positions[:, None] + jnp.arange(num_tokens)
    keys = jnp.arange(num_slots)
    return cls(queries, keys, (keys <= queries[..., None])[:, None])

  @classmethod
  def of_texts(cls, batch: int, length: int):
    """Whole texts, as in teacher forcing; the keys are those of the texts themselves."""
    return cls.of_blocks(jnp.zeros(batch, jnp.int32), length, length)

  @classmethod
  def of_tree(cls, positions, key_positions, visible):
    """Stated by the caller: int32 [B, T], int32 [B, K], bool [B, T, K]."""
    return cls(positions, key_positions[:, None], visible[:, None])
