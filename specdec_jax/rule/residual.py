"""What is left of p where q was rejected."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def residual(p: Float[Array, ' V'], q: Float[Array, ' V'],
             otherwise: Float[Array, ' V'] | None = None) -> Float[Array, ' V']:
  """Normalised max(0, p - q) [§2.3], float32 [V]; `otherwise`, p by default, where that is zero or not finite."""
  excess = jnp.maximum(p - q, 0.0)
  total = excess.sum()
  usable = (total > 0) & jnp.isfinite(total)
  return jnp.where(usable, excess / jnp.where(usable, total, 1.0), p if otherwise is None else otherwise)
