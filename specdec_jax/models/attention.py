"""Attention in which masks select: what a query may not see doesn't reach it, whatever numbers stand there.

Two ways lead past a mask that adds: a NaN logit plus -1e10 is NaN, and a value that is not finite, times its
weight of exactly 0, is NaN. So logits and weights are chosen by the mask, and values are finite: what is not finite
in a value is moved to its key, from where it makes the logits NaN of those queries alone that see the place.

Dimension names: B batch, T queries, K keys, H heads, D head_dim.
"""

import jax
import jax.numpy as jnp

_MASKED = -1e10  # of any finite size: the weights of masked places are set to 0


def finite_values(keys, values):
  """Keys and values [B, H, K, D] with what is not finite in a value moved to its key, as NaN."""
  finite = jnp.isfinite(values)
  return jnp.where(finite, keys, jnp.nan), jnp.where(finite, values, 0.0)


def seen_values(values, visible):
  """Values [B, H, K, D] of a cache, 0 in slots that no query sees (visible bool [B, 1, T, K])."""
  return jnp.where(visible.any(axis=-2)[..., None], values, 0.0)


def attention_weights(query, keys, visible, bias=None, scale: float | None = None):
  """Softmax over the visible keys, in float32; all 0 where a query sees none.

  Args:
    query: [B, H, T, D].
    keys: [B, H, K, D].
    visible: bool, broadcast to [B, H, T, K].
    bias: float32, added to the logits; broadcast likewise.
    scale: the logits are multiplied by it, before the bias is added.
  """
  logits = jnp.einsum('bhtd,bhkd->bhtk', query, keys, preferred_element_type=jnp.float32)
  if scale is not None:
    logits = logits * scale
  if bias is not None:
    logits = logits + bias
  return jnp.where(visible, jax.nn.softmax(jnp.where(visible, logits, _MASKED), axis=-1), 0.0)


def mix(weights, values):
  """[B, H, T, K] and finite values [B, H, K, D] -> [B, T, H * D]."""
  mixed = jnp.einsum('bhtk,bhkd->bhtd', weights, values)
  return mixed.transpose(0, 2, 1, 3).reshape(mixed.shape[0], mixed.shape[2], -1)
