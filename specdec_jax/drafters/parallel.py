"""A non-autoregressive drafter: one call gives the logits of a whole block [§6]."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from specdec_jax.drafters.chain import distributions_along
from specdec_jax.drafters.levels import sample_levels
from specdec_jax.errors import SettingError


class ParallelDrafter(struct.PyTreeNode):
  """Adapts a function that proposes all gamma tokens' logits from the text before them.

  `heads(params, state, history, position, gamma) -> logits [B, gamma, V']` is called once
  a block. Head i speaks of token i of the block without seeing the tokens before it in
  the block: history int32 [B, N] holds the text up to `position` int32 [B] and nothing
  that means anything after it. Each token is drawn from its head's standardised distribution; logits
  processors see the drafts before it.

  Attributes:
    heads: the function, such as a Flax module's `apply` with a wrapper (static).
    params: its weights or tables, a pytree.
    encode: `encode(params, tokens [B, S], cache_length) -> state`, once a request; by
      default the state is the encoder tokens (static).
    label: shown in reports.
    operations: multiply-adds a draft token, for thm 3.11.
  """

  heads: Callable = struct.field(pytree_node=False)
  params: Any = ()
  encode: Callable | None = struct.field(pytree_node=False, default=None)
  label: str = struct.field(pytree_node=False, default='parallel heads')
  operations: float = struct.field(pytree_node=False, default=0.0)

  @property
  def name(self) -> str:
    return self.label

  def check(self, target):
    del target  # the heads' own concern: whatever they propose is verified

  def prefill(self, request, cache_length: int):
    tokens = request.tokens
    return tokens if self.encode is None else self.encode(self.params, tokens, cache_length)

  def propose(self, state, text, tree, keys, standardizer):
    """See `Drafter.propose`; all nodes of a level have the same head."""
    batch, depth = len(text.position), tree.depth
    logits = self.heads(self.params, state, text.history, text.position, depth)
    if logits.shape[:2] != (batch, depth):
      raise SettingError(f'{self.name}: heads returned logits {list(logits.shape)}; they must be '
                         f'[{batch}, {depth}, V], a row of V for each of {depth} tokens.')

    return sample_levels(logits, text, tree, keys, standardizer), state

  def distributions(self, request, history, prefix_end, standardizer, offset: int = 0):
    """See `Drafter.distributions`: the distributions of head `offset`, which sees the text up to so many tokens before.

    Heads further on see less and agree less, so tokens per call fall short of eq. 1 with
    the alpha of head 0. The first tokens of a text have heads up to their own place.
    """
    state = self.prefill(request, history.shape[1])
    place = jnp.arange(history.shape[1] - 1)
    head = jnp.minimum(place, offset)

    def one(place, head):
      position = jnp.full(len(history), place - head, jnp.int32)
      return self.heads(self.params, state, history, position, offset + 1)[:, head]

    logits = jax.vmap(one, out_axes=1)(place, head)
    return distributions_along(standardizer, logits, history, prefix_end)
