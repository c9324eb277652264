"""A draft tree filled level by level: what all drafters share."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax import sampling
from specdec_jax.drafters.interface import Proposal, Text
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


def sample_tree(logits_of: Callable, state: Any, text: Text, tree: Tree, keys: jax.Array,
                standardizer: Standardizer) -> tuple[Proposal, Any]:
  """Samples the children of each level's nodes, from the root down.

  Args:
    logits_of: `logits_of(state, depth, parents, tokens) -> (logits [B, n, V'], state)`: raw, of what follows the n
      nodes `parents` (NumPy int32 [n], -1 the root) of a depth; tokens int32 [B, M] holds the levels so far.
    state: what `logits_of` takes along.
    text, tree, keys, standardizer: as in `Drafter.propose`.
  """
  batch = len(text.position)
  tokens, qs = jnp.full((batch, tree.num_nodes), -1, jnp.int32), []
  for depth, parents in enumerate(tree.expanded):
    logits, state = logits_of(state, depth, parents, tokens)
    processed = process_nodes(standardizer, logits, text, tree, parents, tokens)
    tokens, q = sample_children(standardizer, processed, tree, parents, tokens, keys)
    qs.append(q)
  return Proposal(tokens, None if qs[0] is None else jnp.concatenate(qs, axis=1)), state


def sample_levels(logits, text: Text, tree: Tree, keys: jax.Array, standardizer: Standardizer) -> Proposal:
  """As `sample_tree`, where all nodes of a level have the same logits: float [B, D, V'], a row for each level."""
  def logits_of(state, depth, parents, tokens):
    del tokens
    return jnp.broadcast_to(logits[:, depth, None], (len(logits), len(parents), logits.shape[-1])), state

  return sample_tree(logits_of, (), text, tree, keys, standardizer)[0]


def process_nodes(standardizer: Standardizer, logits, text: Text, tree: Tree, nodes: np.ndarray, tokens):
  """`Standardizer.process` after each of n nodes, whose text is the row's and its own path; [B, n, V]."""
  depths = np.array([0 if node < 0 else tree.depths[node] for node in nodes], np.int32)
  history = node_texts(text, tree, nodes, tokens) if standardizer.processors else text.history
  lengths = text.position[:, None] + 1 + depths
  return standardizer.process(logits, history, lengths, text.prefix_end)


def node_texts(text: Text, tree: Tree, nodes: np.ndarray, tokens):
  """int32 [B, n, N]: the history with each node's path after the root."""
  path = np.full((len(nodes), tree.depth), -1, np.int32)  # the node at each depth on the way to a node
  for row, node in enumerate(nodes):
    on_path = [] if node < 0 else np.flatnonzero(tree.ancestors[node])
    path[row, :len(on_path)] = on_path
  place = jnp.arange(text.history.shape[1])
  depth = place - text.position[:, None] - 1  # [B, N], 0 for the first token after the root
  step = jnp.clip(depth, 0, tree.depth - 1)
  node_at = jnp.asarray(path).T[step]  # [B, N, n]
  drafted = jax.vmap(lambda row, nodes: row[nodes])(tokens, jnp.maximum(node_at, 0))
  inside = ((depth >= 0) & (depth < tree.depth))[..., None] & (node_at >= 0)
  return jnp.where(inside, drafted, text.history[..., None]).transpose(0, 2, 1)


def sample_children(standardizer: Standardizer, processed, tree: Tree, parents: np.ndarray, tokens, keys):
  """Tokens of the children of n nodes, written into tokens [B, M], and the distributions they were sampled from.

  Where the distribution holds one token the children are the largest logits, each proposed for certain; else
  they are sampled without replacement. float32 [B, n, V], or None.
  """
  children = tree.children[parents + 1]  # [n, C]
  count = int((children >= 0).sum(1).max())
  children = children[:, :count]
  q = None
  if standardizer.certain:
    chosen = sampling.largest(processed, count)
  else:
    q = standardizer.probabilities(processed)
    first_children = jnp.asarray(children[:, 0])
    of_nodes = jax.vmap(jax.vmap(jax.random.fold_in, (None, 0)), (0, None))(keys, first_children)
    if count == 1:
      chosen = jax.vmap(jax.vmap(sampling.sample))(q, of_nodes)[..., None]
    else:
      several = lambda probabilities, key: sampling.sample_several(probabilities, key, count)
      chosen = jax.vmap(jax.vmap(several))(q, of_nodes)
  real = children >= 0
  return tokens.at[:, children[real]].set(chosen[:, real]), q
