"""The memory's speed, measured: what a decode cannot beat while each token reads every weight."""

import time

import jax
import jax.numpy as jnp
from jax import lax

from specdec_jax import compilation
from specdec_jax.analysis.operations import operations_per_token

_COLUMNS = 1024


def weight_bytes(model) -> int:
  """Bytes of the weights that a decoder step reads, in the dtype that they are kept in."""
  return operations_per_token(model) * jnp.dtype(model.config.dtype).itemsize


def bytes_per_second(num_bytes: int, dtype: str = 'float32', repeats: int = 5, seconds: float = 0.3) -> float:
  """How fast an array of so many bytes is read, the fastest of several repeats.

  It is read as a decoder's weights are, by products with a vector, or by sums, whichever is faster here; over and over,
  so that what fits into a processor's caches is read from there, as in a decode.

  Args:
    num_bytes: such as `weight_bytes`.
    dtype: of the array.
    repeats: timings of either way.
    seconds: how long one lasts, roughly.
  """
  rows = max(1, num_bytes // (_COLUMNS * jnp.dtype(dtype).itemsize))
  array = jnp.ones((rows, _COLUMNS), dtype)
  size = array.size * array.dtype.itemsize
  best = 0.0
  for read in (_sums, _products):
    once = _seconds(read, array, 1)
    times = max(1, round(seconds / once))
    best = max(best, *(times * size / _seconds(read, array, times) for _ in range(repeats)))
  return best


def _seconds(read, array, times: int) -> float:
  jax.block_until_ready(read(array, times))
  start = time.perf_counter()
  jax.block_until_ready(read(array, times))
  return time.perf_counter() - start


@compilation.jit
def _sums(array, times):
  # The factor of each turn is the last one's outcome, so that no turn is left out.
  body = lambda _, factor: 1 + 0 * jnp.sum(array * factor.astype(array.dtype), dtype=jnp.float32)
  return lax.fori_loop(0, times, body, jnp.float32(1))


@compilation.jit
def _products(array, times):
  def body(_, vector):
    out = jnp.matmul(array, vector, preferred_element_type=jnp.float32)
    return (1 + 0 * out[:1]).astype(array.dtype) * jnp.ones_like(vector)

  return lax.fori_loop(0, times, body, jnp.ones(array.shape[1], array.dtype))
