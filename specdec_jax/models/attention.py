"""Attention in which masks select: what a query may not see doesn't reach it, whatever numbers stand there.

Two ways lead past a mask that adds: a NaN logit plus -1e10 is NaN, and a value that is not finite, times its
weight of exactly 0, is NaN. So logits and weights are chosen by the mask, and values are finite: what is not finite
in a value is moved to its key, from where it makes the logits NaN of those queries alone that see the place.

Dimension names: B batch, T queries, K keys, H heads, D head_dim.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32

Keys = Float[Array, 'B H K D']

MASKED = -1e10  # of any finite size: the weights of masked places are set to 0


def finite_values(keys: Keys, values: Keys) -> tuple[Keys, Keys]:
  """Keys and values with what is not finite in a value moved to its key, as NaN."""
  finite = jnp.isfinite(values)
  return jnp.where(finite, keys, jnp.nan), jnp.where(finite, values, 0.0)


def seen_values(values: Keys, visible: Bool[Array, 'B 1 T K']) -> Keys:
  """Values of a cache, 0 in slots that no query sees."""
  return jnp.where(visible.any(axis=-2)[..., None], values, 0.0)


def attention_weights(query: Float[Array, 'B H T D'], keys: Keys, visible: Bool[Array, '...'],
                      bias: Float32[Array, '...'] | None = None,
                      scale: float | None = None) -> Float32[Array, 'B H T K']:
  """Softmax over the visible keys, in float32; all 0 where a query sees none.

  Args:
    query, keys: whose products are the logits.
    visible: broadcast to [B, H, T, K].
    bias: added to the logits; broadcast likewise.
    scale: the logits are multiplied by it, before the bias is added.
  """
  logits = jnp.einsum('bhtd,bhkd->bhtk', query, keys, preferred_element_type=jnp.float32)
  if scale is not None:
    logits = logits * scale
  if bias is not None:
    logits = logits + bias
  return jnp.where(visible, jax.nn.softmax(jnp.where(visible, logits, MASKED), axis=-1), 0.0)


def mix(weights: Float[Array, 'B H T K'], values: Keys) -> Float[Array, 'B T H*D']:
  """The finite values in these proportions, heads side by side."""
  mixed = jnp.einsum('bhtk,bhkd->bhtd', weights, values)
  return mixed.transpose(0, 2, 1, 3).reshape(mixed.shape[0], mixed.shape[2], -1)
