"""From a model's raw logits to the distribution at each position: one way, for target and draft alike."""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from specdec_jax import sampling as sampling_lib


@dataclasses.dataclass(frozen=True, kw_only=True)
class Standardizer:
  """Vocabulary mask, logits processors, then standardisation [§2.2].

  Attributes:
    sampling: temperature, top-k and top-p.
    num_rows: V of the target; other models' logits are cut or padded to it.
    num_tokens: ids below it may be decoded, the rest are padding rows.
    processors: `processor(logits [V], context) -> logits [V]`, see `logits_processors`.
  """

  sampling: sampling_lib.Sampling
  num_rows: int
  num_tokens: int
  processors: tuple[Callable, ...] = ()

  def mask(self, logits):
    """Raw [..., V'] -> float32 [..., V] with -inf where no token is."""
    logits = logits[..., :self.num_rows].astype(jnp.float32)
    missing = self.num_rows - logits.shape[-1]
    if missing:
      widths = [(0, 0)] * (logits.ndim - 1) + [(0, missing)]
      logits = jnp.pad(logits, widths, constant_values=-jnp.inf)
    if self.num_tokens < self.num_rows:
      logits = jnp.where(jnp.arange(self.num_rows) < self.num_tokens, logits, -jnp.inf)
    return logits

  def process(self, logits, history, lengths, first):
    """Masked and processed logits of the tokens that follow, not yet standardised.

    Args:
      logits: float [B, T, V'], raw.
      history: int32 [B, N], each row's decoder tokens (start token or prompt included).
      lengths: int32 [B, T], how many of them stand before each of the T distributions.
      first: int32 [B], place of the last token that was given, not generated.

    Returns:
      float32 [B, T, V].
    """
    logits = self.mask(logits)
    for processor in self.processors:
      logits = _at_every_position(processor, logits, history, lengths, first)
    return logits

  def probabilities(self, logits, history, lengths, first):
    """The distributions of the tokens that follow, float32 [B, T, V]; arguments as `process`."""
    return self.sampling.probabilities(self.process(logits, history, lengths, first))

  def sample(self, processed, keys):
    """A token a row and the distribution it is drawn from: [B, V] of `process` -> int32 [B], float32 [B, V]."""
    probs = self.sampling.probabilities(processed)
    if self.sampling.greedy:
      return jnp.argmax(processed, axis=-1).astype(jnp.int32), probs
    return jax.vmap(sampling_lib.draw)(probs, keys), probs


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Context:
  """What a logits processor may look at: one row at one position.

  Attributes:
    tokens: int32 [N], the decoder's tokens so far (start token or prompt included), 0 behind them.
    length: int32 scalar, how many there are.
    generated: int32 scalar, how many of them were generated.
  """

  tokens: jax.Array
  length: jax.Array
  generated: jax.Array


def _at_every_position(processor, logits, history, lengths, first):
  def one(logits_V, history_N, length, first):
    tokens = jnp.where(jnp.arange(history_N.shape[0]) < length, history_N, 0)
    return processor(logits_V, Context(tokens, length, length - first - 1))

  positions = jax.vmap(one, in_axes=(0, None, 0, None))
  return jax.vmap(positions)(logits, history, lengths, first)
