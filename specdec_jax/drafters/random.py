"""Uniformly random tokens: the drafter that needs nothing and still gains a little [§3.6]."""

import jax
import jax.numpy as jnp
from flax import struct


class RandomDrafter(struct.PyTreeNode):
  """Every token that may be decoded, with the same probability; alpha is 1 / their number.

  Neither the sampling nor logits processors change that: q is what the tokens are
  drawn from, at temperature 0 too.
  """

  @property
  def name(self) -> str:
    return 'random tokens'

  def check(self, target):
    del target  # any

  def prefill(self, tokens, cache_length: int):
    del tokens, cache_length
    return ()

  def propose(self, state, history, position, first, keys, gamma: int, standardizer):
    """See `Drafter.propose`."""
    del history, position, first
    count = _num_tokens(standardizer)
    draft = jax.vmap(lambda key: jax.random.randint(key, (gamma,), 0, count, jnp.int32))(keys)
    return draft, _uniform(standardizer, draft.shape), state

  def distributions(self, tokens, history, first, standardizer):
    """See `Drafter.distributions`."""
    del tokens, first
    return _uniform(standardizer, history[:, 1:].shape)


def _num_tokens(standardizer) -> int:
  return min(standardizer.num_tokens, standardizer.num_rows)


def _uniform(standardizer, shape):
  row = jnp.where(jnp.arange(standardizer.num_rows) < _num_tokens(standardizer), 1 / _num_tokens(standardizer), 0.0)
  return jnp.broadcast_to(row.astype(jnp.float32), (*shape, standardizer.num_rows))
