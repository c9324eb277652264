"""A score job: the log-likelihood of the texts that each example gives, one line an example."""

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from specdec_jax import arguments, scoring
from specdec_jax.data.examples import Example
from specdec_jax.files import mirror
from specdec_jax.jobs import claims, fingerprint, output
from specdec_jax.jobs.carrying_out import carry_out, check_failed, surveyed
from specdec_jax.jobs.score_inputs import CHECKS as INPUT_CHECKS, ScoreOptions, padded, targets_of
from specdec_jax.jobs.scoring_work import Scoring
from specdec_jax.jobs.stream import Item
from specdec_jax.model import Model

SCORED = 'SCORED'
NORMALIZATIONS = ('none', 'tokens')
CHECKS = {**INPUT_CHECKS, 'normalization': arguments.text_of(NORMALIZATIONS), 'per_token': arguments.flag}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreJob:
  """What a job scores with.

  Attributes:
    model: whose log-likelihood it is.
    options: of the inputs and targets.
    normalization: 'none', or 'tokens': a score is divided by its target's tokens, EOS counted.
    per_token: whether lines have the log-probability of each token too.
  """

  model: Model
  options: ScoreOptions
  normalization: str = 'none'
  per_token: bool = False

  def score(self, examples: Iterable[Example], output_dir: str) -> dict:
    """Writes `output_dir`/predictions.jsonl; see the score run.

    Returns:
      The summary; {} but on process 0.
    """
    examples, ids, digest = surveyed(examples)
    digests = {'inputs': digest, 'target': fingerprint.of_weights(self.model)}
    claims.tie_contents(output_dir, digests)
    found = carry_out(output_dir, examples, ids, digests, self.model, self.options, 'scoring',
                      lambda predictions, progress: Scoring(self.lines, self.options, predictions, progress))
    if found is None:
      return {}
    predictions, timing = found
    times = {name: timing[name] for name in ('seconds', 'seconds_compiling', 'tokens_per_second')}
    summary = {'examples': len(ids), 'normalization': self.normalization, **totals(predictions, self.normalization),
               **times, 'predictions': mirror.shown(predictions.path)}
    output.write_json(output_dir, 'summary.json', summary)
    accuracy = '' if summary['accuracy'] is None else (
        f", the right target first in {summary['accuracy']:.1%} of {summary['labelled']}")
    print(f"{summary['examples']} examples, {summary['targets']} targets of {summary['tokens']} tokens"
          f"{accuracy}; in {summary['predictions']}")
    check_failed(predictions)
    return summary

  def lines(self, items: list[Item]) -> dict[int, dict]:
    """The lines of inputs of one length, by place in the job's input; all targets of one share its encoder pass."""
    inputs, filled = items[0].window.inputs, items + items[-1:] * (self.options.batch_size - len(items))
    batch = self.options.batch(inputs, [item.place for item in filled], items[0].length)
    rows = [inputs.targets[item.place] for item in filled]
    targets, lengths = padded(rows)
    found = scoring.score(self.model, batch.tokens, targets, lengths, batch.lengths, per_token=True)
    return {item.window.indices[item.place]: self._line(
        inputs.examples[item.place], item.place in inputs.cut_places,
        [found[i, j, :len(ids)] for j, ids in enumerate(rows[i])]) for i, item in enumerate(items)}

  def _line(self, example: Example, cut: bool, found: list[np.ndarray]) -> dict:
    lengths = [len(log_probs) for log_probs in found]
    scores = [float(log_probs.sum()) / (n if self.normalization == 'tokens' else 1)
              for log_probs, n in zip(found, lengths)]
    line = {'id': example.id, 'input': example.source, 'targets': list(targets_of(example)),
            'scores': [_number(score) for score in scores], 'lengths': lengths, 'status': SCORED}
    if self.per_token:
      line['log_probs'] = [[_number(x) for x in log_probs] for log_probs in found]
    if len(scores) > 1:
      line['best'] = int(np.argmax(scores))
    if example.label is not None:
      line |= {'label': example.label, 'correct': int(np.argmax(scores)) == example.label}
    return line | ({'cut': True} if cut else {})


def _number(value: Any) -> float | None:
  """As JSON has it: None where a target has no probability at all."""
  return float(value) if math.isfinite(value) else None


def totals(predictions: Iterable[dict], normalization: str) -> dict:
  """Counts over all lines, JSON-ready: accuracy is of the examples with a label."""
  status: dict[str, int] = {}
  targets = tokens = cut = labelled = correct = 0
  total = 0.0
  for line in predictions:
    status[line['status']] = status.get(line['status'], 0) + 1
    cut += line.get('cut', False)
    for score, length in zip(line.get('scores', ()), line.get('lengths', ())):
      targets, tokens = targets + 1, tokens + length
      total += -math.inf if score is None else score * (length if normalization == 'tokens' else 1)
    labelled += 'label' in line
    correct += line.get('correct', False)
  return {'cut_inputs': cut, 'status': status, 'targets': targets, 'tokens': tokens,
          'log_likelihood_per_token': _number(total / tokens) if tokens else None, 'labelled': labelled,
          'accuracy': correct / labelled if labelled else None}
