"""Rules on logits that depend on the text so far; applied to target and draft at every position.

Each is a frozen dataclass called as `processor(logits [V], context) -> logits [V]`
(see `standardizer.Context`), so that one position costs and counts the same whether its
token came from the draft or from the target.
"""

import dataclasses
from collections.abc import Callable, Iterable

import jax
import jax.numpy as jnp

from specdec_jax import checks
from specdec_jax.errors import SettingError
from specdec_jax.standardizer import Context


class LogitsProcessor:
  """A processor that checks itself against the model it is used with. Plain functions serve too."""

  def check(self, target) -> None:
    """SettingError, in one line, where it cannot be used with a `Model`."""

  def __call__(self, logits: jax.Array, context: Context) -> jax.Array:
    """float32 [V] of one position -> float32 [V]; -inf forbids a token."""
    raise TypeError(f'{type(self).__name__} does not say what it does with logits: define __call__.')


def checked(processors: Iterable[Callable], target) -> tuple[Callable, ...]:
  """The processors as a tuple; SettingError where one cannot be used with the target."""
  processors = checks.sequence('logits_processors', processors, _callable, empty=True)
  for processor in processors:
    if isinstance(processor, LogitsProcessor):
      processor.check(target)
  return processors


def _callable(name: str, value) -> Callable:
  if isinstance(value, type) or not callable(value):
    raise SettingError(f'{name} is {checks.shown(value)}; it must be a function or an instance of a processor, '
                       'called as processor(logits, context).')
  return value


@dataclasses.dataclass(frozen=True)
class RepetitionPenalty(LogitsProcessor):
  """Divides positive and multiplies negative logits of tokens that already stand in the text."""

  penalty: float

  def __post_init__(self):
    checks.real('RepetitionPenalty.penalty', self.penalty, lambda p: 0 < p < float('inf'), 'above 0')

  def __call__(self, logits, context):
    at = jnp.where(jnp.arange(context.tokens.shape[0]) < context.length, context.tokens,
                   logits.shape[0])
    seen = jnp.zeros(logits.shape[0], bool).at[at].set(True, mode='drop')
    penalised = jnp.where(logits > 0, logits / self.penalty, logits * self.penalty)
    return jnp.where(seen, penalised, logits)


@dataclasses.dataclass(frozen=True)
class MinimumLength(LogitsProcessor):
  """No EOS among the first `length` generated tokens.

  Attributes:
    length: how many.
    eos_id: the token to hold back instead of all of the model's own that end a text.
  """

  length: int
  eos_id: int | None = None

  def __post_init__(self):
    object.__setattr__(self, 'length', checks.whole('MinimumLength.length', self.length, 0))
    if self.eos_id is not None:
      object.__setattr__(self, 'eos_id', checks.whole('MinimumLength.eos_id', self.eos_id, 0))

  def check(self, target):
    _in_vocabulary('MinimumLength.eos_id', () if self.eos_id is None else (self.eos_id,), target)

  def __call__(self, logits, context):
    ids = jnp.array(context.eos_ids if self.eos_id is None else (self.eos_id,))
    too_early = context.generated < self.length
    return logits.at[ids].set(jnp.where(too_early, -jnp.inf, logits[ids]))


@dataclasses.dataclass(frozen=True)
class ForbiddenTokens(LogitsProcessor):
  """These ids are never decoded."""

  tokens: tuple[int, ...]

  def __post_init__(self):
    object.__setattr__(self, 'tokens', checks.wholes('ForbiddenTokens.tokens', self.tokens, 0))

  def check(self, target):
    _in_vocabulary('ForbiddenTokens.tokens', self.tokens, target)

  def __call__(self, logits, context):
    del context
    return logits.at[jnp.array(self.tokens)].set(-jnp.inf)


def _in_vocabulary(name: str, ids: Iterable[int], target) -> None:
  outside = [i for i in ids if i >= target.config.vocab_size]
  if outside:
    raise SettingError(f'{name} has the id {outside[0]}, but the model has ids 0 to {target.config.vocab_size - 1}.')
