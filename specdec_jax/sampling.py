"""Logits to the explicit distribution that tokens are drawn from [§2.2]."""

import dataclasses

import jax
import jax.numpy as jnp

from specdec_jax.errors import SettingError

_ONE_BLOCK = 64  # distributions up to this size are drawn from at once


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sampling:
  """How logits are standardised: temperature, then top-k, then top-p [§2.2].

  Attributes:
    temperature: 0 is greedy: the one-hot distribution of the first maximum.
    top_k: keep the k largest (tokens tied with the k-th are kept too); 0 keeps all.
    top_p: keep the most probable tokens until they hold top_p of the mass, the
      token that crosses it included; 1 keeps all.
  """

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0

  def __post_init__(self):
    if not (self.temperature == 0 or 1e-30 < self.temperature < float('inf')):
      raise SettingError(f'temperature is {self.temperature}; it must be 0 (greedy) or positive '
                       '(above 1e-30, the least that float32 can divide by).')
    if self.top_k < 0 or self.top_k != int(self.top_k):
      raise SettingError(f'top_k is {self.top_k}; it must be a whole number, 0 (keep all) or more.')
    object.__setattr__(self, 'top_k', int(self.top_k))
    if not 0 < self.top_p <= 1:
      raise SettingError(f'top_p is {self.top_p}; it must be in (0, 1], 1 keeps all.')

  @property
  def greedy(self) -> bool:
    return self.temperature == 0

  def probabilities(self, logits) -> jax.Array:
    """Logits [..., V] -> the standardised distribution, float32 [..., V].

    Logits of -inf get 0. Where NaN or infinity stands among the logits, or only
    -inf, the whole distribution is NaN.
    """
    logits = jnp.asarray(logits, jnp.float32)
    top = logits.max(-1, keepdims=True)
    if self.greedy:
      first = jax.nn.one_hot(jnp.argmax(logits, -1), logits.shape[-1], dtype=jnp.float32)
      return jnp.where(jnp.isfinite(top), first, jnp.nan)
    if 0 < self.top_k < logits.shape[-1]:
      kth = jax.lax.top_k(logits, self.top_k)[0][..., -1:]
      logits = jnp.where(logits < kth, -jnp.inf, logits)
    # Relative to the maximum, so that a tiny temperature cannot overflow.
    probs = jax.nn.softmax((logits - top) / self.temperature, axis=-1)
    if self.top_p < 1:
      probs = _nucleus(probs, self.top_p)
    return probs


def _nucleus(probs, top_p):
  """Keeps each token whose more probable ones (ties: lower ids) hold less than top_p."""
  order = jnp.argsort(-probs, axis=-1, stable=True)
  ranked = jnp.take_along_axis(probs, order, -1)
  before = jnp.cumsum(ranked, -1) - ranked
  ranked = jnp.where(before < top_p, ranked, 0.0)
  kept = jnp.take_along_axis(ranked, jnp.argsort(order, axis=-1), -1)
  return kept / kept.sum(-1, keepdims=True)


def draw(probs, key) -> jax.Array:
  """One token (int32 scalar) from a distribution [V]; tokens of probability 0 are never drawn.

  A large distribution is cut into blocks: first a block is drawn by its mass, then a token in it,
  which takes 2 sqrt(V) random numbers instead of V.
  """
  size = probs.shape[-1]
  if size <= _ONE_BLOCK:
    return _categorical(probs, key)
  block = 1 << (size.bit_length() // 2)
  blocks = jnp.pad(probs, (0, -size % block)).reshape(-1, block)
  block_key, token_key = jax.random.split(key)
  chosen = _categorical(blocks.sum(1), block_key)
  token = chosen * block + _categorical(blocks[chosen], token_key)
  return jnp.minimum(token, size - 1)  # a distribution of NaN could name a token of the padding


def _categorical(weights, key):
  return jax.random.categorical(key, jnp.log(weights)).astype(jnp.int32)
