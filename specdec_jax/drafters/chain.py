"""A chain of draft tokens sampled one after another in a loop, and the distributions along a whole text."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from specdec_jax.drafters.interface import Proposal, Text
from specdec_jax.standardizer import Standardizer


def sample_chain(first_logits: jax.Array, next_logits: Callable, state: Any, text: Text, gamma: int, keys: jax.Array,
                 standardizer: Standardizer) -> tuple[Proposal, Any]:
  """gamma tokens a row [alg. 1], one program for all but the first.

  Args:
    first_logits: float [B, V'], raw, of what follows the root.
    next_logits: `next_logits(state, token [B], place [B]) -> (logits [B, V'], state)`: what follows a draft token
      that stands at a place of the text.
    state: what `next_logits` takes along.
    text, keys, standardizer: as in `Drafter.propose`.
  """
  def choose(logits_BxV, history, i):
    lengths = (text.position + i + 1)[:, None]
    processed = standardizer.process(logits_BxV[:, None], history, lengths, text.prefix_end)[:, 0]
    token, q = standardizer.sample(processed, jax.vmap(jax.random.fold_in, (0, None))(keys, i))
    return q, token, write_token(history, token, text.position + i + 1)

  def one(carry, i):
    state, token, history = carry
    logits, state = next_logits(state, token, text.position + i)
    q, token, history = choose(logits, history, i)
    return (state, token, history), (q, token)

  q, token, history = choose(first_logits, text.history, 0)
  (state, _, _), (qs, tokens) = lax.scan(one, (state, token, history), jnp.arange(1, gamma))
  tokens = jnp.concatenate([token[None], tokens]).T
  return Proposal(tokens, jnp.concatenate([q[None], qs]).transpose(1, 0, 2)), state


def distributions_along(standardizer: Standardizer, logits, history, prefix_end):
  """The distributions of all tokens of a text but its first: float32 [B, N - 1, V].

  Args:
    standardizer: turns logits into distributions.
    logits: float [B, N - 1, V'], raw.
    history, prefix_end: as in `Drafter.distributions`.
  """
  batch, slots = history.shape
  lengths = jnp.broadcast_to(1 + jnp.arange(slots - 1), (batch, slots - 1))
  return standardizer.probabilities(standardizer.process(logits, history, lengths, prefix_end))


def write_token(history, token, at):
  """history [B, N] with token [B] at places [B]."""
  return jax.vmap(lambda row, t, place: row.at[place].set(t))(history, token, at)
