"""Which places of a cache each token of a pass sees, and where in its text everything stands."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


class Visibility(NamedTuple):
  """B rows, T tokens of a pass, K cache slots.

  Attributes:
    queries: position of each token in its text, from 0.
    keys: position of what each slot holds; [B, 1, K] where rows differ.
    visible: the slots that each token sees.
  """

  queries: Int[Array, 'B T']
  keys: Int[Array, ' K'] | Int[Array, 'B 1 K']
  visible: Bool[Array, 'B 1 T K']

  @classmethod
  def of_blocks(cls, positions: Int[Array, ' B'], num_tokens: int, num_slots: int):
    """Each row's tokens continue its text from positions[b] on; slot k holds position k."""
    queries = positions[:, None] + jnp.arange(num_tokens)
    keys = jnp.arange(num_slots)
    return cls(queries, keys, (keys <= queries[..., None])[:, None])

  @classmethod
  def of_texts(cls, batch: int, length: int):
    """Whole texts, as in teacher forcing; the keys are those of the texts themselves."""
    return cls.of_blocks(jnp.zeros(batch, jnp.int32), length, length)

  @classmethod
  def of_tree(cls, positions: Int[Array, 'B T'], key_positions: Int[Array, 'B K'], visible: Bool[Array, 'B T K']):
    """As the caller gives them."""
    return cls(positions, key_positions[:, None], visible[:, None])
