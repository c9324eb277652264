"""Rules on logits that depend on the text so far; applied to target and draft at every position.

Each is a frozen dataclass called as `processor(logits [V], context) -> logits [V]`
(see `standardizer.Context`), so that one position costs and counts the same whether its
token came from the draft or from the target.
"""

import dataclasses

import jax.numpy as jnp

from specdec_jax.errors import SettingError


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty:
  """Divides positive and multiplies negative logits of tokens that already stand in the text."""

  penalty: float

  def __post_init__(self):
    if not 0 < self.penalty < float('inf'):
      raise SettingError(f'RepetitionPenalty.penalty is {self.penalty}; it must be positive.')

  def __call__(self, logits, context):
    at = jnp.where(jnp.arange(context.tokens.shape[0]) < context.length, context.tokens,
                   logits.shape[0])
    seen = jnp.zeros(logits.shape[0], bool).at[at].set(True, mode='drop')
    penalised = jnp.where(logits > 0, logits / self.penalty, logits * self.penalty)
    return jnp.where(seen, penalised, logits)


@dataclasses.dataclass(frozen=True)
class MinimumLength:
  """No EOS among the first `length` generated tokens."""

  length: int
  eos_id: int = 1

  def __post_init__(self):
    if self.length < 0:
      raise SettingError(f'MinimumLength.length is {self.length}; it must be 0 or more.')

  def __call__(self, logits, context):
    too_early = context.generated < self.length
    return logits.at[self.eos_id].set(jnp.where(too_early, -jnp.inf, logits[self.eos_id]))


@dataclasses.dataclass(frozen=True)
class ForbiddenTokens:
  """These ids are never decoded."""

  tokens: tuple[int, ...]

  def __post_init__(self):
    object.__setattr__(self, 'tokens', tuple(int(t) for t in self.tokens))
    if not self.tokens or min(self.tokens) < 0:
      raise SettingError(f'ForbiddenTokens.tokens is {self.tokens}; give at least one id, none negative.')

  def __call__(self, logits, context):
    del context
    return logits.at[jnp.array(self.tokens)].set(-jnp.inf)
