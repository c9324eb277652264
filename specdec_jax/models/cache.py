"""What all decoders share about their caches: per-row writes and the mask that makes a rewind free."""

import jax
import jax.numpy as jnp
from jax import lax

MASKED = -1e10  # finite: a fully padded row must not become NaN


def write(cache, new, positions):
  """Writes new [B, H, T, D] into cache [B, H, L, D] at each row's own position [B].

  What lies behind is left as it is: every read is masked by absolute position.
  """
  return jax.vmap(lambda row, block, at: lax.dynamic_update_slice(row, block, (0, at, 0)))(
      cache, new.astype(cache.dtype), positions)


def causal_mask(query_positions, num_keys: int):
  """int32 [B, T] absolute positions -> additive float32 [B, T, num_keys]."""
  return jnp.where(jnp.arange(num_keys) <= query_positions[..., None], 0.0, MASKED)
