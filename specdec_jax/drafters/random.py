"""Uniformly random tokens: the drafter that needs nothing and still gains a little [§3.6]."""

import jax
import jax.numpy as jnp
from flax import struct

from specdec_jax.drafters.interface import Proposal
from specdec_jax.sampling import sample_several


class RandomDrafter(struct.PyTreeNode):
  """Every token that may be decoded, with the same probability; alpha is 1 / their number.

  Neither the sampling nor logits processors change that: q is what the tokens are
  sampled from, at temperature 0 too.
  """

  @property
  def name(self) -> str:
    return 'random tokens'

  def check(self, target):
    del target  # any

  def prefill(self, request, cache_length: int):
    del request, cache_length
    return ()

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`."""
    count, batch, expanded = _num_tokens(standardizer), len(text.position), sum(map(len, tree.expanded))
    if tree.is_chain:
      tokens = jax.vmap(lambda key: jax.random.randint(key, (tree.num_nodes,), 0, count, jnp.int32))(keys)
    else:
      tokens = jax.vmap(lambda key: _siblings(key, tree, count))(keys)
    return Proposal(tokens, _uniform(standardizer, (batch, expanded))), state

  def distributions(self, request, history, prefix_end, standardizer):
    """See `Drafter.distributions`."""
    del request, prefix_end
    return _uniform(standardizer, history[:, 1:].shape)


def _siblings(key, tree, count):
  """int32 [M]: the children of each node are different tokens."""
  tokens = jnp.full(tree.num_nodes, -1, jnp.int32)
  uniform = jnp.full(count, 1 / count, jnp.float32)
  for children in tree.children:
    children = children[children >= 0][:count]  # there are no more different tokens: the rest is void
    if len(children):
      several = sample_several(uniform, jax.random.fold_in(key, children[0]), len(children))
      tokens = tokens.at[children].set(several)
  return tokens


def _num_tokens(standardizer) -> int:
  return min(standardizer.num_tokens, standardizer.num_rows)


def _uniform(standardizer, shape):
  count = _num_tokens(standardizer)
  row = jnp.where(jnp.arange(standardizer.num_rows) < count, 1 / count, 0.0)
  return jnp.broadcast_to(row.astype(jnp.float32), (*shape, standardizer.num_rows))
