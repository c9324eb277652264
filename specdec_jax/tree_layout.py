"""Where the nodes of a pass over a tree stand in a text and in a cache, and what each of them sees.

A row's text up to its last committed token lies in the cache slots of its positions. A tree's nodes lie side by
side in the slots after it, whatever their positions: the k-th of them in slot start + k.
"""

import jax
import jax.numpy as jnp
import numpy as np


def layout(start: jax.Array, depths: np.ndarray, sees: np.ndarray, num_slots: int) -> tuple[jax.Array, jax.Array]:
  """What a pass over n of a tree's nodes needs to know of the cache's slots.

  Args:
    start: int32 [B], the slot of the tree's first node; the slots before it hold the text, at their positions.
    depths: int32 [O], of each node that lies in the cache, in the order of their slots: a node's position is
      start + depth.
    sees: bool [n, O], which of them are on the path to each node of the pass, itself included.
    num_slots: K, of the cache.

  Returns:
    Position of what each slot holds, int32 [B, K], and whether each node sees it, bool [B, n, K].
  """
  slot = jnp.arange(num_slots)
  offset = slot - start[:, None]
  node = jnp.clip(offset, 0, len(depths) - 1)
  positions = jnp.where(offset < 0, slot, start[:, None] + jnp.asarray(depths)[node])
  in_tree = (offset >= 0) & (offset < len(depths))
  visible = jnp.asarray(sees).T[node].transpose(0, 2, 1)  # [B, n, K]
  return positions, (offset < 0)[:, None] | (in_tree[:, None] & visible)
