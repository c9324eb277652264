"""dtype = 'auto': float32 or bfloat16, whichever a model's passes take less time in on this device."""

import dataclasses
import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
from flax import traverse_util
from jax import lax

from specdec_jax import compilation
from specdec_jax.model import Model
from specdec_jax.models.parameters import parameter_dtypes

WIDTHS = (1, 8)  # tokens of a pass: a step, and a pass over a draft of seven
_CALLS, _ROUNDS = 4, 5


def faster(model: Model) -> tuple[Model, str]:
  """The model in the faster dtype of float32 and bfloat16, and the reason in a sentence.

  One row, a step of one token and a pass over 8, in turns; the smaller sum of the medians wins. It compiles four
  programs.

  Args:
    model: float32.
  """
  models = {'float32': model, 'bfloat16': as_bfloat16(model)}
  timed: dict[str, list[list[float]]] = {dtype: [[] for _ in WIDTHS] for dtype in models}
  for turn in range(_ROUNDS + 1):
    for dtype, candidate in models.items():
      for width, times in zip(WIDTHS, timed[dtype]):
        seconds = _seconds(candidate, width)
        if turn:  # the first one compiles
          times.append(seconds)
  medians = {dtype: [statistics.median(times) for times in of] for dtype, of in timed.items()}
  best = min(medians, key=lambda dtype: sum(medians[dtype]))
  of = {dtype: ' and '.join(f'{1e3 * s:.3g}' for s in seconds) for dtype, seconds in medians.items()}
  return models[best], (f"dtype 'auto' is {best}: a step and a pass over {WIDTHS[1]} tokens take {of['float32']} ms in "
                        f"float32, {of['bfloat16']} ms in bfloat16.")


def as_bfloat16(model: Model) -> Model:
  """The same weights, kernels and embeddings rounded to bfloat16, where they lie."""
  config = dataclasses.replace(model.config, dtype='bfloat16')
  dtypes = parameter_dtypes(config)
  params = {path: value.astype(dtypes[path]) for path, value in traverse_util.flatten_dict(
      model.params, sep='/').items()}
  return model.replace(config=config, params=traverse_util.unflatten_dict(params, sep='/'))


def _seconds(model: Model, width: int) -> float:
  """Of one pass over so many tokens of a row."""
  cache = _prefill(model, np.full((1, 4), 2, np.int32), 4 + width)
  jax.block_until_ready(cache)
  start = time.perf_counter()
  jax.block_until_ready(_passes(model, cache, width=width))
  return (time.perf_counter() - start) / _CALLS


@functools.partial(compilation.jit, static_argnames='slots')
def _prefill(model, tokens, slots):
  return model.prefill(tokens, slots)


@functools.partial(compilation.jit, static_argnames='width')
def _passes(model, cache, *, width):
  """Passes at one place; each one's tokens come from the one before, so that none is left out."""
  def body(_, carry):
    cache, tokens = carry
    logits, cache = model.step(cache, tokens, jnp.zeros(1, jnp.int32))
    return cache, logits.argmax(-1).astype(jnp.int32)

  return lax.fori_loop(0, _CALLS, body, (cache, jnp.full((1, width), 2, jnp.int32)))
