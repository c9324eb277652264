"""A draft that agrees as often as one likes, at the cost of a real one: for chips without trained checkpoints.

What it measures is time. Its texts are the target's own, as always, but its alpha is chosen, not measured.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.drafters.interface import Proposal
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError


class Synthetic(struct.PyTreeNode):
  """Runs a model drafter and puts the target's known continuation in the place of what it drafted.

  Attributes:
    inner: whose passes are made, and whose tokens are dropped.
    texts: int32 [B, L], the target's greedy text of each row.
    acceptance_by_rank: probability that a node's first, second, ... child is the target's token, at each place by
      itself; of a chain that is (alpha,).
  """

  inner: ModelDrafter
  texts: Any
  acceptance_by_rank: tuple[float, ...] = struct.field(pytree_node=False)

  @property
  def name(self) -> str:
    return f'synthetic draft of alpha {self.acceptance_by_rank[0]:g}, at the cost of {self.inner.name}'

  @property
  def draft(self):
    """See `Drafter`."""
    return self.inner.draft

  def check(self, target) -> None:
    self.inner.check(target)

  def prefill(self, request, cache_length: int):
    return self.inner.prefill(request, cache_length)

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`; at temperature 0 alone, where every token is proposed for certain."""
    if not standardizer.certain:
      raise SettingError('A synthetic draft knows the greedy text only; set the temperature to 0.')
    drafted, state = self.inner.propose(state, text, tree, keys, standardizer)
    places = text.position[:, None] - text.prefix_end[:, None] + np.arange(tree.depth)
    right = jnp.take_along_axis(self.texts, jnp.minimum(places, self.texts.shape[1] - 1), axis=1)  # [B, depth]
    bounds = jnp.cumsum(jnp.asarray(self.acceptance_by_rank))
    uniform = jax.vmap(lambda key: jax.random.uniform(key, (tree.depth,)))(keys)
    rank = jnp.searchsorted(bounds, uniform, side='right')  # of the right token at each depth; beyond all: none has it
    depth, ranks = tree.depths - 1, np.asarray(tree.ranks)
    wrong = (right[:, depth] + 1 + ranks) % standardizer.num_tokens
    tokens = jnp.where(rank[:, depth] == ranks, right[:, depth], wrong)
    # No token is below -1, which the compiler does not know: what was drafted is waited for.
    return Proposal(jnp.where(drafted.tokens < -1, drafted.tokens, tokens), None), state

  def distributions(self, request, history, prefix_end, standardizer):
    raise SettingError("A synthetic draft's alpha is chosen, so it is not measured.")
