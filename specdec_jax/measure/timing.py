"""Times several decoders over the same batches, compilation apart."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from specdec_jax.analysis.reliability import spread
from specdec_jax.errors import SettingError
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.progress import Progress
from specdec_jax.results import Result


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timed:
  """What one method did.

  Attributes:
    method: which.
    results: one for each batch.
    seconds: float [number of batches], medians over the repeats.
    spread: `reliability.spread` of the batches' repeats; None where there was one.
    warm_up_seconds: first calls, one of each shape: compilation and a decode.
  """

  method: Any
  results: list[Result]
  seconds: Float64[np.ndarray, ' N']
  warm_up_seconds: float
  spread: float | None = None

  def count(self, name: str, batches: Sequence[Batch]) -> int:
    """Sum of a field of `Stats` over the real rows of the batches."""
    return int(total(name, batches, self.results))


def total(name: str, batches: Sequence[Batch], results: Sequence[Result]):
  """Sum of a field of `Stats` over the real rows; [gamma] of one by place in the block."""
  return sum(getattr(r.stats, name)[:len(b.indices)].sum(0) for b, r in zip(batches, results))


def time_methods(target, methods: Sequence[Any], batches: Sequence[Batch], repeats: int,
                 name: str) -> list[Timed]:
  """Warms each method up on each shape, then times them in turns, batch by batch.

  Args:
    target: the `Model`.
    methods: what to time; the one that goes first changes with every batch and repeat.
    batches: `batching.batches`.
    repeats: timings of each batch, of which the median counts.
    name: what the progress lines call it.
  """
  if repeats < 1:
    raise SettingError(f'repeats is {repeats}; it must be at least 1.')
  warm_up = [0.0] * len(methods)
  shapes = list({b.tokens.shape: b for b in batches}.values())
  with Progress(len(shapes) * len(methods), f'{name}: warm-up', 'program') as progress:
    for batch in shapes:
      for m, method in enumerate(methods):
        with progress.compiling(f'{method.name}, inputs of {batch.tokens.shape[1]} tokens'):
          warm_up[m] += _timed(method, target, batch)[0]
        progress.add(1)
  results = [[] for _ in methods]
  seconds = np.zeros((len(methods), len(batches), repeats))
  rows = sum(len(b.indices) for b in batches)
  with Progress(rows * repeats * len(methods), f'{name}: timing') as progress:
    for b, batch in enumerate(batches):
      for repeat in range(repeats):
        for turn in range(len(methods)):
          m = (turn + b + repeat) % len(methods)
          elapsed, result = _timed(methods[m], target, batch)
          seconds[m, b, repeat] = elapsed
          if repeat == 0:
            results[m].append(result)
          progress.add(len(batch.indices), int(result.lengths[:len(batch.indices)].sum()))
  return [Timed(method=method, results=r, seconds=np.median(s, axis=1), warm_up_seconds=w, spread=spread(s))
          for method, r, s, w in zip(methods, results, seconds, warm_up)]


def _timed(method, target, batch):
  start = time.perf_counter()
  result = method(target, batch)  # on the host, so it is finished
  return time.perf_counter() - start, result
