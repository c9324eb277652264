"""The work of a decode job: batch after batch to lines of predictions; an example that fails does not stop the rest."""

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from specdec_jax import stopping
from specdec_jax.errors import UserError
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.inputs import Inputs
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.parallel import hosts
from specdec_jax.results import Result, Status, acceptance_rate

MAX_FAILED = 10  # calls of the decoder


def decode_all(name: str, method: Callable[[Model, Batch], Result], target: Model, inputs: Inputs,
               predictions: Predictions, batches: Sequence[Batch]) -> dict:
  """Decodes batches into predictions.

  Where a batch fails its rows are decoded one by one, and those that fail alone are recorded as FAILED.

  Args:
    name: of the progress line.
    method: decodes a batch.
    target, inputs, predictions: of the job.
    batches: what is to be done.

  Returns:
    Seconds and tokens/s; the first call of each shape, which compiles, is left out of both.

  Raises:
    UserError: a setting that no batch can run with, or an output that cannot be written.
    Exception: what the decoder failed with, where nothing of the first batch can be decoded or MAX_FAILED
      calls failed; the examples are recorded before.
  """
  seen, failed, parts = set(), 0, 0  # shapes, calls, rows of a batch that wait to be tried alone
  tokens, seconds, first_seconds = 0, 0.0, 0.0
  waiting = collections.deque(batches)
  with Progress(sum(len(b.indices) for b in batches), name) as progress:
    while waiting:
      batch = waiting.popleft()
      parts = max(parts - 1, 0)
      hosts.check()
      start = time.perf_counter()
      with stopping.postponed():
        try:
          new = batch.tokens.shape not in seen
          with progress.compiling(f'for inputs of {batch.tokens.shape[1]} tokens') if new else contextlib.nullcontext():
            result = method(target, batch)
          elapsed = time.perf_counter() - start
          lines = records(target, inputs, batch, result)
        except Exception as e:
          if isinstance(e, UserError) and not seen:  # a setting that no batch can run with
            raise
          if len(batch.indices) > 1 and 'RESOURCE_EXHAUSTED' not in str(e):  # alone a row takes as much memory
            alone = _rows_alone(batch)
            parts = len(alone)
            waiting.extendleft(reversed(alone))
            continue
          failed += 1
          _record_failure(inputs, predictions, batch, e)
          if failed >= MAX_FAILED or not (seen or parts):
            raise
          progress.add(len(batch.indices))
          continue
        predictions.add(lines)
      emitted = int(result.lengths[:len(batch.indices)].sum())
      if batch.tokens.shape in seen:
        tokens, seconds = tokens + emitted, seconds + elapsed
      else:
        first_seconds += elapsed
      seen.add(batch.tokens.shape)
      progress.add(len(batch.indices), 0 if new else emitted)
  return {'seconds': seconds, 'seconds_first_of_shape': first_seconds,
          'tokens_per_second': tokens / seconds if seconds else None}


def records(target: Model, inputs: Inputs, batch: Batch, result: Result) -> dict[int, dict]:
  """The lines of one batch by place in the input."""
  texts = ([None] * len(result.lengths) if target.vocabulary is None else
           target.decode(result.tokens, result.lengths))
  lines = {}
  for row, index in enumerate(batch.indices.tolist()):
    example, stats = inputs.examples[index], result.stats
    score = float(result.scores[row])
    lines[index] = {
        'id': example.id, 'input': example.source, 'text': texts[row],
        'tokens': result.tokens[row, :result.lengths[row]].tolist(),
        'scores': score if np.isfinite(score) else None,
        'status': Status(int(result.status[row])).name,
        'statistics': {
            **{n: int(getattr(stats, n)[row])
               for n in ('target_calls', 'drafted', 'accepted', 'emitted')},
            **{n: getattr(stats, n)[row].tolist()
               for n in ('accepted_by_position', 'drafted_by_position', 'accepted_by_rank', 'offered_by_rank')}}}
    if example.reference is not None:
      lines[index]['reference'] = example.reference
  return lines


def totals(predictions: Predictions) -> dict:
  """Counts over all predictions, JSON-ready."""
  counts = dict.fromkeys(('target_calls', 'drafted', 'accepted', 'emitted'), 0)
  status = {}
  for record in predictions:
    status[record['status']] = status.get(record['status'], 0) + 1
    for name in counts:
      counts[name] += record.get('statistics', {}).get(name, 0)
  tokens, calls = counts.pop('emitted'), counts['target_calls']
  return {'status': status, 'tokens': tokens, **counts,
          'acceptance_rate': acceptance_rate(counts['accepted'], counts['drafted']),
          'tokens_per_call': tokens / calls if calls else None}


def _rows_alone(batch: Batch) -> list[Batch]:
  """A batch of the same shape for each row, which fills it."""
  alone: Callable[..., Any] = lambda values, row: (
      None if values is None else np.repeat(values[row:row + 1], len(values), 0))
  return [dataclasses.replace(batch, indices=batch.indices[row:row + 1], tokens=alone(batch.tokens, row),
                              ids=alone(batch.ids, row), lengths=alone(batch.lengths, row))
          for row in range(len(batch.indices))]


def _record_failure(inputs: Inputs, predictions: Predictions, batch: Batch, error: Exception):
  reason = ' '.join(str(error).split())[:500] or type(error).__name__
  ids = [inputs.examples[i].id for i in batch.indices]
  note(f'examples {ids} failed: {reason}')
  predictions.add({i: {'id': inputs.examples[i].id, 'status': FAILED, 'error': reason}
                   for i in batch.indices.tolist()})
