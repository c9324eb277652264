"""From a model's raw logits to the distribution at each position: one way, for target and draft alike."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from flax import struct

from specdec_jax import sampling as sampling_lib
from specdec_jax.sampling import Sampling


class Standardizer(struct.PyTreeNode):
  """Vocabulary mask, logits processors, then standardisation [§2.2].

  What only scales is traced, so that another temperature or top-p compiles nothing anew.

  Attributes:
    temperature: float32 scalar; not used where greedy.
    tail: float32 scalar, 1 - top_p; not used without top-p.
    greedy, top_k, top_p: whether temperature is 0; as in `Sampling`; whether top_p is below 1 (static).
    num_rows: V of the target; other models' logits are cut or padded to it (static).
    num_tokens: ids below it may be decoded, the rest are padding rows (static).
    eos_ids: of the target (static).
    processors: `processor(logits [V], context) -> logits [V]`, see `logits_processors` (static).
  """

  temperature: Any
  tail: Any
  greedy: bool = struct.field(pytree_node=False)
  top_k: int = struct.field(pytree_node=False)
  top_p: bool = struct.field(pytree_node=False)
  num_rows: int = struct.field(pytree_node=False)
  num_tokens: int = struct.field(pytree_node=False)
  eos_ids: tuple[int, ...] = struct.field(pytree_node=False, default=(1,))
  processors: tuple[Callable, ...] = struct.field(pytree_node=False, default=())

  @classmethod
  def of(cls, sampling: Sampling, *, num_rows: int, num_tokens: int, eos_ids: tuple[int, ...] = (1,),
         processors: tuple[Callable, ...] = ()) -> 'Standardizer':
    """The standardizer of some sampling settings and a vocabulary."""
    return cls(**_fields(sampling), num_rows=num_rows, num_tokens=num_tokens, eos_ids=tuple(eos_ids),
               processors=tuple(processors))

  @classmethod
  def of_target(cls, target, sampling: Sampling, processors: tuple[Callable, ...] = ()) -> 'Standardizer':
    """The standardizer of a `Model`'s vocabulary."""
    return cls.of(sampling, num_rows=target.config.vocab_size, num_tokens=target.num_tokens,
                  eos_ids=target.eos_ids, processors=processors)

  def sampled(self, sampling: Sampling) -> 'Standardizer':
    """The same vocabulary and processors with other sampling settings."""
    return self.replace(**_fields(sampling))

  @property
  def certain(self) -> bool:
    """Whether the distribution holds one token, ties aside."""
    return self.greedy or self.top_k == 1

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

  def process(self, logits, history, lengths, prefix_end):
    """Masked and processed logits of the tokens that follow, not yet standardised.

    Args:
      logits: float [B, T, V'], raw.
      history: int32 [B, N], each row's decoder tokens (start token or prompt included), or [B, T, N]
        where each of the T has a text of its own.
      lengths: int32 [B, T], how many of them stand before each of the T distributions.
      prefix_end: int32 [B], place of the last token that was given, not generated.

    Returns:
      float32 [B, T, V].
    """
    logits = self.mask(logits)
    for processor in self.processors:
      logits = _at_every_position(processor, logits, history, lengths, prefix_end, self.eos_ids)
    return logits

  def probabilities(self, logits):
    """Processed logits [..., V] of `process` -> the standardised distribution, float32 [..., V]."""
    return sampling_lib.standardise(logits, None if self.greedy else self.temperature, self.top_k,
                                    self.tail if self.top_p else None)

  def sample(self, processed, keys):
    """A token a row and its distribution: [B, V] of `process` -> int32 [B], float32 [B, V]."""
    probabilities = self.probabilities(processed)
    if self.greedy:
      return jnp.argmax(processed, axis=-1).astype(jnp.int32), probabilities
    return jax.vmap(sampling_lib.sample)(probabilities, keys), probabilities


def _fields(sampling: Sampling) -> dict[str, Any]:
  return {'temperature': jnp.float32(sampling.temperature), 'tail': jnp.float32(1 - sampling.top_p),
          'greedy': sampling.greedy, 'top_k': sampling.top_k, 'top_p': sampling.top_p < 1}


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Context:
  """What a logits processor may look at: one row at one position.

  Attributes:
    tokens: int32 [N], the decoder's tokens so far (start token or prompt included), 0 after them.
    length: int32 scalar, how many there are.
    generated: int32 scalar, how many of them were generated.
    eos_ids: the tokens that end a text (static).
  """

  tokens: jax.Array
  length: jax.Array
  generated: jax.Array
  eos_ids: tuple[int, ...] = dataclasses.field(metadata={'static': True}, default=(1,))


def _at_every_position(processor, logits, history, lengths, prefix_end, eos_ids):
  def one(logits_V, history_N, length, prefix_end):
    tokens = jnp.where(jnp.arange(history_N.shape[0]) < length, history_N, 0)
    return processor(logits_V, Context(tokens, length, length - prefix_end - 1, eos_ids))

  positions = jax.vmap(one, in_axes=(0, 0 if history.ndim == 3 else None, 0, None))
  return jax.vmap(positions)(logits, history, lengths, prefix_end)
