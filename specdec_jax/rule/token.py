"""The token rule, for a tree of candidates: recursive rejection along one path."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int32, Key

from specdec_jax.rule.residual import residual
from specdec_jax.sampling import sample
from specdec_jax.tree import Tree


def verify_tree(p: Float[Array, 'M+1 V'], q: Float[Array, 'P V'] | None, tokens: Int32[Array, ' M'], tree: Tree,
                key: Key[Array, ''],
                lenience: Any = 1.0) -> tuple[Int32[Array, ' depth'], Int32[Array, ''], Int32[Array, '']]:
  """Walks down the tree from the root as long as a child is accepted, and samples one more token.

  At a node with children x_1, x_2, ... in rank order, x_j is accepted when u_j q_j(x_j) < p(x_j), where
  q_j is the distribution that x_j was sampled from: q without the children before it, renormalised.
  When it is rejected p becomes the normalised max(0, p - q_j). Where no child is left, the next token
  is sampled from what p has become. With one child a node that is algorithm 1; it is exact for
  every q, since each step leaves p's distribution to whatever comes next (recursive rejection).

  Args:
    p: float32 [M + 1, V], the target's standardised distributions after the root and after each node.
    q: float32 [P, V], of each node that has children, in the order of `tree.expanded`: the distribution
      that its children were sampled from, without replacement. None: every token was proposed for certain,
      from a one-hot distribution.
    tokens: int32 [M]; -1 where the draft's distribution held no more tokens. A void child is never
      accepted, nor is any after it.
    tree: M nodes (static).
    key: typed key.
    lenience: multiplies q in the comparison [app. A.5]; 1 is exact.

  Returns:
    The nodes of the accepted path, int32 [depth], of which the first num_accepted count; num_accepted and
    next_token, int32 scalars.
  """
  accept_key, next_key = jax.random.split(key)
  u = jax.random.uniform(accept_key, (tree.num_nodes,), jnp.float32)
  children = jnp.asarray(np.pad(tree.children, ((0, 0), (0, 1)), constant_values=-1))  # -1 after the last
  row_of = jnp.asarray(tree.expanded_index)
  depth = tree.depth

  def q_after(node):
    return () if q is None else q[jnp.maximum(row_of[node + 1], 0)]

  def test_child(state):
    node, rank, p_now, q_now, path, count, _ = state
    child = children[node + 1, rank]
    token = tokens[child]
    void = (child < 0) | (token < 0)
    q_child = jax.nn.one_hot(token, p.shape[-1], dtype=jnp.float32) if q is None else q_now
    accepted = ~void & (u[child] * lenience * q_child[token] < p_now[token])
    rejected = ~void & ~accepted
    if q is not None:
      left = q_now.at[token].set(0.0)
      left = left / jnp.maximum(left.sum(), jnp.finfo(jnp.float32).tiny)
      q_now = jnp.where(accepted, q_after(child), jnp.where(rejected, left, q_now))
    p_now = jnp.where(accepted, p[child + 1], jnp.where(rejected, residual(p_now, q_child), p_now))
    path = path.at[jnp.where(accepted, count, depth)].set(child, mode='drop')
    return (jnp.where(accepted, child, node), jnp.where(accepted, 0, rank + 1), p_now, q_now, path,
            count + accepted, void)

  root = jnp.int32(-1)
  state = (root, jnp.int32(0), p[0], q_after(root), jnp.zeros(depth, jnp.int32), jnp.int32(0), jnp.bool_(False))
  _, _, p_now, _, path, num_accepted, _ = lax.while_loop(lambda s: ~s[-1], test_child, state)
  return path, num_accepted, sample(p_now, next_key)
