"""Several decoders of the same weights over the same inputs, ours and others': batch by batch, and whole jobs."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specdec_jax.analysis.reliability import spread
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure import agreement, throughput
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.results import acceptance_rate


def by_batch(target: Model, inputs: Inputs, options: InputOptions, methods: Sequence[Any], repeats: int) -> list[dict]:
  """Times the methods in turns, batch by batch; a JSON-ready row each.

  Args:
    target: the `Model`.
    inputs, options: of the batches, from `jobs.inputs`.
    methods: called as `jobs.methods.Method`, greedy; the texts of the first are those that the others should have.
      One with the attribute `exact` = False has other weights, so that its texts may differ.
    repeats: timings of each batch, of which the median counts.
  """
  batches = options.batches(inputs)
  timed = time_methods(target, methods, batches, repeats, f'batch size {options.batch_size}')
  rows = []
  for t in timed:
    differences = agreement.differences(target, inputs, batches, timed[0].results, t.results)
    count = lambda name, t=t: t.count(name, batches)
    rows.append({
        'decoder': name_of(t.method), 'tokens': count('emitted'), 'seconds': float(t.seconds.sum()),
        'tokens_per_second': count('emitted') / float(t.seconds.sum()), 'spread': t.spread,
        'tokens_per_call': count('emitted') / count('target_calls'),
        'acceptance_rate': acceptance_rate(count('accepted'), count('drafted')),
        'equal_texts': len(inputs.rows) - len(differences), 'texts': len(inputs.rows),
        'not_ties': _not_ties(t.method, differences, target), 'warm_up_seconds': t.warm_up_seconds})
  return rows


def by_job(target: Model, inputs: Inputs, options: InputOptions, methods: Sequence[Any], repeats: int) -> list[dict]:
  """Times whole jobs in turns: others batch after batch, ours in rows that are filled again; a JSON-ready row each.

  Args:
    target, inputs, options, methods, repeats: as in `by_batch`.
  """
  jobs = [_job(target, inputs, options, method) for method in methods]
  seconds, texts = np.zeros((len(jobs), repeats)), []
  with Progress(len(jobs) * (repeats + 1), f'jobs of batch size {options.batch_size}', 'job') as progress:
    for method, job in zip(methods, jobs):
      with progress.compiling(name_of(method)):
        texts.append(job()[1])
      progress.add(1)
    for repeat in range(repeats):
      for turn in range(len(jobs)):
        m = (turn + repeat) % len(jobs)
        progress.say(name_of(methods[m]))
        seconds[m, repeat] = jobs[m]()[0]
        progress.add(1)
  rows = []
  for method, found, times in zip(methods, texts, seconds):
    tokens = sum(map(len, found))
    rows.append({
        'decoder': name_of(method), 'tokens': tokens, 'seconds': float(np.median(times)),
        'tokens_per_second': tokens / float(np.median(times)), 'spread': spread(times[None]),
        'equal_texts': sum(a == b for a, b in zip(found, texts[0])), 'texts': len(inputs.rows)})
  return rows


def name_of(method: Any) -> str:
  """As a table calls it."""
  return f'specdec_jax, {method.name}' if isinstance(method, Method) else method.name


def _not_ties(method, differences, target) -> list[dict]:
  """Where texts differ and no tie explains it, of methods whose texts must be the same."""
  if not getattr(method, 'exact', True):
    return []
  return [{'id': d.id, 'position': d.position, 'margin': d.margin}
          for d in agreement.not_ties(differences, target.config.dtype)]


def _job(target, inputs, options, method) -> Callable[[], tuple[float, list[list[int]]]]:
  """A call that decodes all inputs and returns its seconds, compilations apart, and the tokens of each input."""
  if isinstance(method, Method):
    def ours():
      found = throughput.refilled(target, method, inputs, options)
      return found.seconds[0], found.texts
    return ours
  batches = options.batches(inputs)

  def theirs():
    texts: list[list[int]] = [[]] * len(inputs.rows)
    start = time.perf_counter()
    for batch in batches:
      result = method(target, batch)
      for row, index in enumerate(batch.indices):
        texts[index] = result.tokens[row, :result.lengths[row]].tolist()
    return time.perf_counter() - start, texts
  return theirs
