"""Which parameters a model has: names, shapes, and the comparison with what was found."""

import dataclasses
import functools
import re

import jax
import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.network import network

Shapes = dict[str, tuple[int, ...]]


def is_matrix(path: str, shape: tuple[int, ...]) -> bool:
  """Whether a parameter is a kernel or the embedding (the rest stays float32 everywhere)."""
  return len(shape) == 2 and not path.endswith('rel_embedding')


def parameter_shapes(config: T5Config | GPT2Config) -> Shapes:
  """Every parameter of a model, by '/'-joined path: those that its network makes."""
  return {path: leaf.shape for path, leaf in _leaves(config).items()}


def parameter_dtypes(config: T5Config | GPT2Config) -> dict[str, str]:
  """How a model keeps its parameters in memory: int8, or kernels and embeddings as its dtype, the rest float32."""
  return {path: 'int8' if leaf.dtype == jnp.int8 else config.dtype if is_matrix(path, leaf.shape) else 'float32'
          for path, leaf in _leaves(config).items()}


@functools.lru_cache(maxsize=64)
def _leaves(config) -> dict[str, jax.ShapeDtypeStruct]:
  """The network is traced with one layer a stack: the others are of the same shapes, and tracing them takes seconds."""
  depths = {'encoder': 0 if config.decoder_only else config.num_encoder_layers, 'decoder': config.num_decoder_layers}
  one_layer = dataclasses.replace(
      config, **{field.name: 1 for field in dataclasses.fields(config) if field.name.endswith('layers')})
  token = jnp.zeros((1, 1), jnp.int32)
  inputs = (token,) if config.decoder_only else (token, token)
  made = jax.eval_shape(network(one_layer).init, jax.eval_shape(lambda: jax.random.key(0)), *inputs)['params']
  leaves: dict[str, jax.ShapeDtypeStruct] = {}
  for path, leaf in traverse_util.flatten_dict(made, sep='/').items():
    stack = re.match(r'(encoder|decoder)/layers_0/', path)
    for i in range(depths[stack[1]]) if stack else [0]:
      leaves[path.replace('/layers_0/', f'/layers_{i}/', 1)] = leaf
  return leaves


def check_parameters(found: Shapes, config: T5Config | GPT2Config, source: str) -> None:
  """Raises CheckpointError that lists all that is missing, superfluous or of another shape."""
  layers = max(config.num_decoder_layers, 0 if config.decoder_only else config.num_encoder_layers)
  if layers > len(found):  # refused before any is listed: a damaged number may be a thousand million
    raise CheckpointError(f'{source} has {len(found)} parameters, fewer than the {layers} layers of its configuration; '
                          'use the configuration that they were made with.')
  expected = parameter_shapes(config)
  lines = [f'  missing: {path} {list(expected[path])}'
           for path in sorted(expected.keys() - found.keys())]
  lines += [f'  superfluous: {path} {list(found[path])}'
            for path in sorted(found.keys() - expected.keys())]
  lines += [
      f'  shape: {path} is {list(found[path])}, the model needs {list(expected[path])}'
      for path in sorted(expected.keys() & found.keys())
      if tuple(found[path]) != expected[path]]
  if lines:
    raise CheckpointError(
        f'The parameters in {source} are not those of the model described by its configuration '
        f'({len(lines)} differences); use the configuration that they were made with:\n'
        + '\n'.join(lines))
