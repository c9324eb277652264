"""Logits to the explicit distribution that tokens are sampled from [§2.2], and sampling from it."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int32, Key

from specdec_jax import checks

_ONE_BLOCK = 64  # distributions up to this size are sampled from at once
_ROUNDING = 2e-6  # of sums of float32 probabilities, relative


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
  """How logits are standardised: temperature, then top-k, then top-p [§2.2].

  Attributes:
    temperature: 0 is greedy: the one-hot distribution of the first maximum.
    top_k: keep the k largest (tokens tied with the k-th are kept too); 0 keeps all.
    top_p: keep the most probable tokens until they hold top_p of the mass, the
      token that crosses it included; 1 keeps all.

  Raises:
    SettingError: a value of another type or out of range.
  """

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0

  def __post_init__(self):
    settings = {
        'temperature': checks.real(
            'Sampling.temperature', self.temperature, lambda t: t == 0 or 1e-30 < t < float('inf'),
            'that is 0 (greedy) or positive (above 1e-30, the least that float32 can divide by)'),
        'top_k': checks.whole('Sampling.top_k', self.top_k, 0, hint=' (0 keeps all)'),
        'top_p': checks.real('Sampling.top_p', self.top_p, lambda p: 0 < p <= 1, 'in (0, 1] (1 keeps all)'),
    }
    for name, value in settings.items():
      object.__setattr__(self, name, value)

  @property
  def greedy(self) -> bool:
    return self.temperature == 0

  def probabilities(self, logits: Float[ArrayLike, '*B V']) -> Float[Array, '*B V']:
    """Logits [..., V] -> the standardised distribution, float32 [..., V]; see `standardise`."""
    return standardise(jnp.asarray(logits, jnp.float32), None if self.greedy else self.temperature, self.top_k,
                       None if self.top_p == 1 else 1 - self.top_p)


def standardise(logits: Float[Array, '*B V'], temperature: Any, top_k: int, tail: Any) -> Float[Array, '*B V']:
  """The distribution that tokens are sampled from, float32 [..., V].

  Logits of -inf get 0. Where NaN or infinity stands among the logits, or only -inf, the whole
  distribution is NaN.

  Args:
    logits: float32 [..., V].
    temperature: a number, which may be traced; None is greedy.
    top_k: as in `Sampling`.
    tail: 1 - top_p, which may be traced; None keeps all.
  """
  top = logits.max(-1, keepdims=True)
  if temperature is None:
    best = jax.nn.one_hot(jnp.argmax(logits, -1), logits.shape[-1], dtype=jnp.float32)
    return jnp.where(jnp.isfinite(top), best, jnp.nan)
  if 0 < top_k < logits.shape[-1]:
    kth = lax.top_k(logits, top_k)[0][..., -1:]
    logits = jnp.where(logits < kth, -jnp.inf, logits)
  # Relative to the maximum, so that a tiny temperature cannot overflow.
  probabilities = jax.nn.softmax((logits - top) / temperature, axis=-1)
  return probabilities if tail is None else _nucleus(probabilities, tail)


def _nucleus(probabilities, tail):
  """Keeps each token whose more probable ones (ties: lower ids) hold less than top_p = 1 - tail.

  That is: whose own probability and those of the less probable ones come to more than `tail`. Summed
  from the least probable on, so that small probabilities are not lost beside a sum near 1; sums that
  meet `tail` up to rounding count as equal to it.
  """
  order = jnp.argsort(-probabilities, axis=-1, stable=True)
  ranked = jnp.take_along_axis(probabilities, order, -1)
  rest = jnp.cumsum(ranked[..., ::-1], -1)[..., ::-1]  # of each token and those after it
  kept = (rest > tail * (1 + _ROUNDING) * rest[..., :1]) | (jnp.arange(ranked.shape[-1]) == 0)
  ranked = jnp.where(kept | jnp.isnan(ranked), ranked, 0.0)
  kept = jnp.take_along_axis(ranked, jnp.argsort(order, axis=-1), -1)
  return kept / kept.sum(-1, keepdims=True)


def sample(probabilities: Float[Array, ' V'], key: Key[Array, '']) -> Int32[Array, '']:
  """One token (int32 scalar) of a distribution [V]; tokens of probability 0 are never sampled.

  A large distribution is cut into blocks: first a block is sampled by its mass, then a token in it,
  which takes 2 sqrt(V) random numbers instead of V.
  """
  size = probabilities.shape[-1]
  if size <= _ONE_BLOCK:
    return _categorical(probabilities, key)
  block = 1 << (size.bit_length() // 2)
  blocks = jnp.pad(probabilities, (0, -size % block)).reshape(-1, block)
  block_key, token_key = jax.random.split(key)
  chosen = _categorical(blocks.sum(1), block_key)
  token = chosen * block + _categorical(blocks[chosen], token_key)
  return jnp.minimum(token, size - 1)  # a distribution of NaN could name a token of the padding


def sample_several(probabilities: Float[Array, ' V'], key: Key[Array, ''], count: int) -> Int32[Array, ' count']:
  """Different tokens, int32 [count], sampled one after another without replacement from [V].

  Each is sampled from what is left, renormalised: the order of perturbed log-probabilities (Gumbel's
  noise) has that distribution. -1 where the distribution has no more tokens.
  """
  noise = jax.random.gumbel(key, probabilities.shape, jnp.float32)
  return largest(jnp.log(probabilities) + noise, count)


def largest(values: Float[Array, '*B V'], count: int) -> Int32[Array, '*B count']:
  """Places of the largest values [..., V], int32 [..., count], best first; -1 where no more are finite."""
  there = min(count, values.shape[-1])
  best, places = lax.top_k(values, there)
  places = jnp.where(jnp.isfinite(best), places, -1).astype(jnp.int32)
  return jnp.pad(places, [(0, 0)] * (values.ndim - 1) + [(0, count - there)], constant_values=-1)


def _categorical(weights, key):
  return jax.random.categorical(key, jnp.log(weights)).astype(jnp.int32)
