"""What drafters share: draft tokens drawn one after another, and distributions along a whole text."""

import jax
import jax.numpy as jnp
from jax import lax


def sample_next(standardizer, logits_BxV, history, position, first, keys, i):
  """Standardises, draws draft token i and writes it behind the text.

  Args:
    distribution: `Standardizer`.
    logits_BxV: raw.
    history, position, first, keys: as in `Drafter.propose`, the i tokens before in history.
    i: place in the block, from 0.

  Returns:
    The distribution float32 [B, V], the token int32 [B], and history with it.
  """
  lengths = (position + i + 1)[:, None]
  processed = standardizer.process(logits_BxV[:, None], history, lengths, first)[:, 0]
  token, q = standardizer.sample(processed, jax.vmap(jax.random.fold_in, (0, None))(keys, i))
  return q, token, write_token(history, token, position + i + 1)


def sample_block(logits_at, history, position, first, keys, gamma: int, standardizer):
  """Draws a block where logits are cheap: `logits_at(i, history) -> [B, V']` for its token i.

  Returns:
    Tokens int32 [B, gamma] and their distributions float32 [B, gamma, V].
  """
  def one(history, i):
    q, token, history = sample_next(standardizer, logits_at(i, history), history, position, first, keys, i)
    return history, (token, q)

  _, (tokens, qs) = lax.scan(one, history, jnp.arange(gamma))
  return tokens.T, qs.transpose(1, 0, 2)


def distributions_along(standardizer, logits, history, first):
  """The distributions of all tokens of a text but its first: float32 [B, N - 1, V].

  Args:
    distribution: `Standardizer`.
    logits: float [B, N - 1, V'], raw.
    history, first: as in `Drafter.distributions`.
  """
  batch, slots = history.shape
  lengths = jnp.broadcast_to(1 + jnp.arange(slots - 1), (batch, slots - 1))
  return standardizer.probabilities(logits, history, lengths, first)


def write_token(history, token, at):
  """history [B, N] with token [B] at places [B]."""
  return jax.vmap(lambda row, t, place: row.at[place].set(t))(history, token, at)
