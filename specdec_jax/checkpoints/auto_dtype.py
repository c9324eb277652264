"""dtype = 'auto': float32 or bfloat16, whichever a model's passes take less time in on this device."""

import dataclasses

import numpy as np
from flax import traverse_util

from specdec_jax.analysis import cost
from specdec_jax.model import Model
from specdec_jax.models.parameters import parameter_dtypes
from specdec_jax.tree import Tree

DRAFT = Tree.chain(7)


def faster(model: Model) -> tuple[Model, str]:
  """The model in the faster dtype of float32 and bfloat16, and the reason in a sentence.

  One row, a step of one token and a pass over 8, in turns; the smaller sum of the medians wins. It compiles four
  programs.

  Args:
    model: float32.
  """
  models = {'float32': model, 'bfloat16': as_bfloat16(model)}
  medians = cost.pass_seconds(models, np.full((1, 4), 2), DRAFT, seconds=0.05)
  best = min(medians, key=lambda dtype: sum(medians[dtype]))
  of = {dtype: ' and '.join(f'{1e3 * s:.3g}' for s in seconds) for dtype, seconds in medians.items()}
  return models[best], (f"dtype 'auto' is {best}: a step and a pass over {DRAFT.num_nodes + 1} tokens take "
                        f"{of['float32']} ms in float32, {of['bfloat16']} ms in bfloat16.")


def as_bfloat16(model: Model) -> Model:
  """The same weights, kernels and embeddings rounded to bfloat16, where they lie."""
  config = dataclasses.replace(model.config, dtype='bfloat16')
  dtypes = parameter_dtypes(config)
  params = {path: value.astype(dtypes[path]) for path, value in traverse_util.flatten_dict(
      model.params, sep='/').items()}
  return model.replace(config=config, params=traverse_util.unflatten_dict(params, sep='/'))
