"""The token rule at temperature 0, for a tree of candidates: no random numbers."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int32

from specdec_jax.tree import Tree


def verify_greedy_tree(logits: Float[Array, 'M+1 V'], tokens: Int32[Array, ' M'], tree: Tree,
                       lenience: Any = None) -> tuple[Int32[Array, ' depth'], Int32[Array, ''], Int32[Array, '']]:
  """The rule at temperature 0, where p is one-hot: walks down while a child is the target's maximum.

  That is `verify_tree` for one-hot p and any q, without its random numbers. Lenience < 1 also
  keeps a token x with p(x) >= lenience * max(p), p taken before the argmax: the condition
  that is meant in app. A.5, which prints it the other way round.

  Args:
    logits: float32 [M + 1, V], the target's after the root and each node, masked and processed, not standardised.
    tokens: int32 [M]; -1 is void.
    tree: M nodes (static).
    lenience: in [0, 1], only for a chain; None is exact.

  Returns:
    As `verify_tree`; the next token is the first maximum at its place.
  """
  best = jnp.argmax(logits, axis=-1).astype(jnp.int32)
  parents = jnp.asarray(tree.parents) + 1
  matches = tokens == best[parents]
  if lenience is not None:
    ratio = jnp.exp(logits[parents, tokens] - logits.max(-1)[parents])  # p(x) / max(p)
    matches |= (tokens >= 0) & (ratio >= lenience) & (ratio > 0)
  children = jnp.asarray(tree.children)
  node, count, path = jnp.int32(-1), jnp.int32(0), []
  for level in range(tree.depth):
    candidates = children[node + 1]
    fits = (candidates >= 0) & matches[candidates] & (count == level)
    node = jnp.where(fits.any(), candidates[jnp.argmax(fits)], node)
    path.append(node)
    count += fits.any()
  return jnp.stack(path), count, best[node + 1]
