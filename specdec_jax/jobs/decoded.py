"""The lines of what was decoded, and what a job's summary counts in them."""

import math

import numpy as np

from specdec_jax.jobs.predictions import Predictions
from specdec_jax.jobs.stream import Item
from specdec_jax.model import Model
from specdec_jax.results import Result, Status, acceptance_rate


def records(target: Model, items: list[Item], result: Result, best_first: bool = False) -> dict[int, dict]:
  """The lines of inputs that have ended, by place in the job's input.

  Args:
    target: whose texts they are.
    items: the inputs.
    result: rows b0 s0, b0 s1, ...: as many samples of each. Of several a line has a list, 'samples'.
    best_first: the sample of the highest score comes first in that list, not sample 0.
  """
  texts = ([None] * len(result.lengths) if target.vocabulary is None else
           target.decode(result.tokens, result.lengths))
  samples = len(texts) // max(len(items), 1)
  lines = {}
  for i, item in enumerate(items):
    example = item.window.inputs.examples[item.place]
    found = [_outcome(texts[row], result, row) for row in range(i * samples, (i + 1) * samples)]
    if samples > 1:
      found = [{'sample': sample, **one} for sample, one in enumerate(found)]
      if best_first:  # of equal scores the earlier sample; one without a score last
        found.sort(key=lambda one: -math.inf if one['scores'] is None else one['scores'], reverse=True)
    line = {'id': example.id, 'input': example.source, **({'samples': found} if samples > 1 else found[0])}
    if example.target_prefix is not None:
      line['target_prefix'] = example.target_prefix
    if example.reference is not None:
      line['reference'] = example.reference
    if item.place in item.window.inputs.cut_places:
      line['cut'] = True
    lines[item.window.indices[item.place]] = line
  return lines


def _outcome(text: str | None, result: Result, row: int) -> dict:
  """What a line says of one row."""
  score, stats = float(result.scores[row]), result.stats
  return {
      'text': text, 'tokens': result.tokens[row, :result.lengths[row]].tolist(),
      'scores': score if np.isfinite(score) else None, 'status': Status(int(result.status[row])).name,
      'statistics': {
          **{n: int(getattr(stats, n)[row]) for n in ('target_calls', 'drafted', 'accepted', 'emitted')},
          **{n: getattr(stats, n)[row].tolist()
             for n in ('accepted_by_position', 'drafted_by_position', 'accepted_by_rank', 'offered_by_rank')}}}


def totals(predictions: Predictions) -> dict:
  """Counts over all predictions, each sample of an input one, JSON-ready."""
  counts = dict.fromkeys(('target_calls', 'drafted', 'accepted', 'emitted'), 0)
  status, cut = {}, 0
  for record in predictions:
    cut += record.get('cut', False)
    for one in record.get('samples', [record]):
      status[one['status']] = status.get(one['status'], 0) + 1
      for name in counts:
        counts[name] += one.get('statistics', {}).get(name, 0)
  tokens, calls = counts.pop('emitted'), counts['target_calls']
  return {'cut_inputs': cut, 'status': status, 'tokens': tokens, **counts,
          'acceptance_rate': acceptance_rate(counts['accepted'], counts['drafted']),
          'tokens_per_call': tokens / calls if calls else None}
