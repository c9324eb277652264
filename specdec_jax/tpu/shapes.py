"""Models as shapes: everything the compiler needs of them, and nothing of it allocated."""

import dataclasses
import os

import jax
import jax.numpy as jnp
from flax import traverse_util

from specdec_jax import paths
from specdec_jax.checkpoints.description import read_config
from specdec_jax.drafters.heads import KINDS, HeadsDrafter, heads_for
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.heads import HeadsConfig, initial
from specdec_jax.models.known import known_config, known_names
from specdec_jax.models.parameters import is_matrix, parameter_dtypes, parameter_shapes


def abstract_model(model, dtype: str = 'bfloat16') -> Model:
  """A `Model` whose weights are jax.ShapeDtypeStructs.

  Args:
    model: a name such as 't5_1_1_xxl' (see `models.known`), a model directory
      ('embedded:ende/target' is a shipped one), a configuration, or a `Model`.
    dtype: of kernels and embedding; norms and biases are float32. 'int8' is int8 weights with bfloat16 activations.
  """
  if isinstance(model, Model):
    config, vocabulary = model.config, model.vocabulary
  else:
    config, vocabulary = model if isinstance(model, (T5Config, GPT2Config)) else _config(model), None
  config = dataclasses.replace(config, **({'dtype': 'bfloat16', 'int8_weights': True} if dtype == 'int8' else
                                          {'dtype': dtype}))
  dtypes = parameter_dtypes(config)
  params = {name: jax.ShapeDtypeStruct(shape, jnp.dtype(dtypes[name]))
            for name, shape in parameter_shapes(config).items()}
  return Model(traverse_util.unflatten_dict(params, sep='/'), config, vocabulary)


def abstract_drafter(drafter, dtype: str = 'bfloat16', target: Model | None = None):
  """A drafter of shapes, None of None.

  Args:
    drafter: a model as in `abstract_model`, a `HeadsConfig`, or any drafter.
    dtype: as there.
    target: of shapes; whose heads those of a `HeadsConfig` are.
  """
  if drafter is None:
    return None
  if isinstance(drafter, HeadsConfig):
    return _abstract_heads(heads_for(drafter, target), dtype)
  if isinstance(drafter, HeadsDrafter):
    return _abstract_heads(drafter.config, dtype)
  if not hasattr(drafter, 'propose'):
    return ModelDrafter(abstract_model(drafter, dtype))
  if isinstance(drafter, ModelDrafter):
    return ModelDrafter(abstract_model(drafter.draft, dtype))
  return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), drafter)


def _abstract_heads(config: HeadsConfig, dtype: str) -> HeadsDrafter:
  """Heads have no int8 weights."""
  config = dataclasses.replace(config, dtype='bfloat16' if dtype == 'int8' else dtype)
  leaves = traverse_util.flatten_dict(jax.eval_shape(lambda: initial(config, jax.random.key(0))), sep='/')
  params = {path: jax.ShapeDtypeStruct(x.shape, jnp.dtype(config.dtype) if is_matrix(path, x.shape) else x.dtype)
            for path, x in leaves.items()}
  return KINDS[config.kind](traverse_util.unflatten_dict(params, sep='/'), config)


def num_bytes(tree) -> int:
  """Bytes of a pytree of arrays or shapes."""
  return sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))


def _config(name: str | os.PathLike) -> T5Config | GPT2Config:
  name = os.fspath(name)
  if name.startswith(paths.EMBEDDED_PREFIX) or os.path.isdir(name) or '://' in name:
    return read_config(paths.resolve(name))[0]
  if name not in known_names():
    raise SettingError(f"There is no model '{name}': give a model directory or one of {', '.join(known_names())}.")
  return known_config(name)
