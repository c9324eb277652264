"""The matrix products that all decoders share, and what keeps a TPU from turning their weights."""

import functools

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Float32


def dot_general(lhs, rhs, dimension_numbers, precision=None, preferred_element_type=None):
  """lax.dot_general; on a TPU, and in bfloat16 on a CPU, a lone row is computed twice.

  The TPU's compiler turns a matrix times one row into products and sums on the vector unit,
  by its own estimate several times slower than the matrix unit on two rows. A CPU's has fast products
  of two bfloat16 matrices, and none of a matrix and a row (8 times slower, measured with AVX-512).
  """
  dot = functools.partial(lax.dot_general, dimension_numbers=dimension_numbers, precision=precision,
                          preferred_element_type=preferred_element_type)
  if lhs.size != lhs.shape[-1]:
    return dot(lhs, rhs)

  def twice(lhs, rhs):
    rows = lax.optimization_barrier(jnp.concatenate([lhs, lhs], axis=-2))
    return lax.optimization_barrier(dot(rows, rhs))[..., :1, :]

  on_cpu = twice if lhs.dtype == jnp.bfloat16 else dot
  return lax.platform_dependent(lhs, rhs, tpu=twice, cpu=on_cpu, default=dot)


def tied_logits(x: Float[Array, 'B T E'], embedding: Float[Array, 'V E']) -> Float32[Array, 'B T V']:
  """Logits by the embedding's own rows."""
  return dot_general(x, embedding, (((2,), (1,)), ((), ())), preferred_element_type=jnp.float32)


def split_heads(x: Float[Array, 'B T H*D'], num_heads: int) -> Float[Array, 'B H T D']:
  """The heads of a projection."""
  # Without it the TPU compiler turns the projection's kernel, on every call, and not its result.
  x = lax.optimization_barrier(x)
  return x.reshape(*x.shape[:2], num_heads, x.shape[-1] // num_heads).transpose(0, 2, 1, 3)
