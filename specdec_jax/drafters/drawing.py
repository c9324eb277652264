"""What drafters share: draft tokens drawn one after another, and laws along a whole text."""

import jax
import jax.numpy as jnp
from jax import lax


def draw_next(law, logits_BxV, history, position, first, keys, i):
  """Standardises, draws draft token i and writes it behind the text.

  Args:
    law: `laws.Law`.
    logits_BxV: raw.
    history, position, first, keys: as in `Drafter.propose`, the i tokens before in history.
    i: place in the block, from 0.

  Returns:
    The law float32 [B, V], the token int32 [B], and history with it.
  """
  lengths = (position + i + 1)[:, None]
  processed = law.process(logits_BxV[:, None], history, lengths, first)[:, 0]
  token, q = law.sample(processed, jax.vmap(jax.random.fold_in, (0, None))(keys, i))
  return q, token, write_token(history, token, position + i + 1)


def draw_block(logits_at, history, position, first, keys, gamma: int, law):
  """Draws a block where logits are cheap: `logits_at(i, history) -> [B, V']` for its token i.

  Returns:
    Tokens int32 [B, gamma] and their laws float32 [B, gamma, V].
  """
  def one(history, i):
    q, token, history = draw_next(law, logits_at(i, history), history, position, first, keys, i)
    return history, (token, q)

  _, (tokens, qs) = lax.scan(one, history, jnp.arange(gamma))
  return tokens.T, qs.transpose(1, 0, 2)


def laws_along(law, logits, history, first):
  """The laws of all tokens of a text but its first: float32 [B, N - 1, V].

  Args:
    law: `laws.Law`.
    logits: float [B, N - 1, V'], raw.
    history, first: as in `Drafter.laws`.
  """
  batch, slots = history.shape
  lengths = jnp.broadcast_to(1 + jnp.arange(slots - 1), (batch, slots - 1))
  return law.probabilities(logits, history, lengths, first)


def write_token(history, token, at):
  """history [B, N] with token [B] at places [B]."""
  return jax.vmap(lambda row, t, place: row.at[place].set(t))(history, token, at)
