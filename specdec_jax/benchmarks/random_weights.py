"""Models of any known size with random weights, made on the device: what they take is what trained ones take."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.model import Model
from specdec_jax.models.known import known_config
from specdec_jax.models.parameters import is_matrix, parameter_shapes


def random_model(name: str, dtype: str = 'bfloat16', seed: int = 0) -> Model:
  """A `Model` without a vocabulary, whose texts end hardly ever.

  Args:
    name: of `models.known`, such as 't5_1_1_xxl'.
    dtype: of kernels and embedding; the rest is float32.
    seed: of the weights.
  """
  config = known_config(name, dtype=dtype)
  config = dataclasses.replace(config, eos_id=config.vocab_size - 1, eos_ids=())
  keys = jax.random.split(jax.random.key(seed), len(parameter_shapes(config)))
  made = {path: _array(key, shape, dtype if is_matrix(path, shape) else 'float32', path)
          for key, (path, shape) in zip(keys, parameter_shapes(config).items())}
  return Model(traverse_util.unflatten_dict(made, sep='/'), config)


def _array(key, shape, dtype, path):
  if path.endswith('scale'):
    return jnp.ones(shape, dtype)
  return _normal(key, shape, dtype, 1.0 if 'embedd' in path else shape[0] ** -0.5)


@functools.partial(jax.jit, static_argnames=('shape', 'dtype'))
def _normal(key, shape, dtype, spread):
  return (spread * jax.random.normal(key, shape, jnp.dtype(dtype))).astype(dtype)
