"""A draft that is itself drafted for: speculative decoding of the draft tokens [§6], exact at either level."""

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from specdec_jax import rule
from specdec_jax.drafters.interface import Proposal, Text
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


def further_slots(inner_gamma: int) -> int:
  """Slots that histories and caches of both need beyond the outer draft: the last inner block may pass its end."""
  return inner_gamma + 1


def drafted_chain(draft, drafter, state: Any, text: Text, gamma: int, inner_gamma: int, keys: jax.Array,
                  standardizer: Standardizer) -> tuple[Proposal, Any]:
  """gamma tokens of the draft, each from its own distribution after those before it, in fewer of its passes.

  The rule leaves each token the draft's distribution, so that is the q of the proposal. Each row takes as many inner
  iterations as it needs; those that have their tokens wait for the others.

  Args:
    draft: the `Model`.
    drafter: proposes chains of `inner_gamma` tokens for it.
    state: the draft's cache and the inner drafter's state, of `further_slots` more than the history has.
    text, keys, standardizer: as in `Drafter.propose`; the standardizer is the draft's.
    gamma: tokens wanted.
  """
  inner, room = Tree.chain(inner_gamma), gamma + further_slots(inner_gamma)
  batch, start = len(text.position), text.position
  history = jnp.pad(text.history, ((0, 0), (0, further_slots(inner_gamma))))
  write = jax.vmap(lambda row, new, at: lax.dynamic_update_slice_in_dim(row, new, at, 0))

  def take(rows, start, count: int):
    return jax.vmap(lambda row, at: lax.dynamic_slice_in_dim(row, at, count))(rows, start)

  def iterate(carry):
    history, count, q, (cache, inner_state) = carry
    step_keys = jax.vmap(lambda key, n: jax.random.split(jax.random.fold_in(key, n)))(keys, count)
    here = Text(history=history, position=start + count, prefix_end=text.prefix_end)
    proposal, inner_state = drafter.propose(inner_state, here, inner, step_keys[:, 0], standardizer)
    trial = write(history, jnp.maximum(proposal.tokens, 0), here.position + 1)
    # The token before the root is fed again: the draft never fed the last one of a draft that was accepted whole.
    before = jnp.maximum(here.position - 1, 0)
    logits, cache = draft.step(cache, take(trial, before, inner_gamma + 2), before)
    logits = take(logits, here.position - before, inner_gamma + 1)
    lengths = here.position[:, None] + 1 + jnp.arange(inner_gamma + 1)
    processed = standardizer.process(logits, trial, lengths, text.prefix_end)
    path, accepted, token, p = _verified(standardizer, processed, proposal, inner, step_keys[:, 1])
    del path  # of a chain
    place = jnp.arange(inner_gamma + 1)
    drafted = jnp.pad(proposal.tokens, ((0, 0), (0, 1)))
    emitted = jnp.where(place < accepted[:, None], drafted, token[:, None])
    needs = count < gamma
    put = lambda rows, new, at: jnp.where(needs.reshape(-1, *[1] * (rows.ndim - 1)), write(rows, new, at), rows)
    return (put(history, emitted, here.position + 1), count + jnp.where(needs, accepted + 1, 0),
            None if q is None else put(q, p, count), (cache, inner_state))

  q = None if standardizer.certain else jnp.zeros((batch, room, standardizer.num_rows), jnp.float32)
  carry = history, jnp.zeros(batch, jnp.int32), q, state
  history, _, q, state = lax.while_loop(lambda carry: (carry[1] < gamma).any(), iterate, carry)
  return Proposal(take(history, start + 1, gamma), None if q is None else q[:, :gamma]), state


def _verified(standardizer, processed, proposal: Proposal, tree: Tree, keys):
  """The rule for every row, and the draft's distributions where tokens are drawn."""
  if standardizer.certain:
    return *jax.vmap(lambda logits, tokens: rule.verify_greedy_tree(logits, tokens, tree))(
        processed, proposal.tokens), None
  p = standardizer.probabilities(processed)
  one = lambda p, q, tokens, key: rule.verify_tree(p, q, tokens, tree, key)
  return *jax.vmap(one, (0, None if proposal.q is None else 0, 0, 0))(p, proposal.q, proposal.tokens, keys), p
