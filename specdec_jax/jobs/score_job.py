"""A score job: the log-likelihood of the texts that each example gives, one line an example."""

import dataclasses
import math
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from specdec_jax import arguments, scoring, stopping
from specdec_jax.data.examples import Example
from specdec_jax.data.padding import padded_length
from specdec_jax.errors import InputError, UserError
from specdec_jax.files import mirror
from specdec_jax.jobs import claims, fingerprint, given_outputs, output
from specdec_jax.jobs.carrying_out import carry_out, check_failed, surveyed
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.stream import Item, Window, until_asked
from specdec_jax.jobs.work import MAX_FAILED, failed_line
from specdec_jax.model import Model

SCORED = 'SCORED'
NORMALIZATIONS = ('none', 'tokens')
# Of the settings of `ScoreOptions` and `ScoreJob` that `InputOptions` has not.
CHECKS = {'max_target_len': arguments.at_least(1), 'add_eos': arguments.flag,
          'normalization': arguments.text_of(NORMALIZATIONS), 'per_token': arguments.flag}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScoreOptions(InputOptions):
  """As `InputOptions`, with the targets that each example gives; where it gives none, its reference.

  Attributes:
    max_target_len: longest target in tokens; an example with a longer one is refused.
    add_eos: whether EOS follows a target that is text, and counts; one that is token ids stays as it is.
  """

  max_target_len: int = 512
  add_eos: bool = True

  def encode_what_fits(self, model: Model, examples: Sequence[Example]) -> tuple[Inputs, dict[int, str]]:
    """As that of `InputOptions`."""
    inputs, refused = super().encode_what_fits(model, examples)
    targets: list[list[list[int]]] = []
    for i, example in enumerate(examples):
      targets.append([])
      try:
        targets[i] = [self._target(model, example.id, target) for target in targets_of(example)]
      except InputError as e:
        refused.setdefault(i, str(e))
    return dataclasses.replace(inputs, targets=targets), refused

  def _target(self, model: Model, example_id: int | str, target: Any) -> list[int]:
    ids = given_outputs.encoded(model, target, f"Example {example_id}'s target")
    if self.add_eos and isinstance(target, str):
      ids = [*ids, model.eos_id]
    if not 0 < len(ids) <= self.max_target_len:
      raise InputError(f'Example {example_id} has a target of {len(ids)} tokens; it must have 1 to max_target_len = '
                       f'{self.max_target_len}.')
    return ids


def targets_of(example: Example) -> Sequence[Any]:
  """What of an example is scored; InputError where it gives nothing."""
  if example.targets:
    return example.targets
  if example.reference is None:
    raise InputError(f'Example {example.id} has no target to score; name the field with read_examples.targets_field '
                     '(a text or a list of them) or read_examples.reference_field.')
  return [example.reference]


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
                      lambda predictions, progress: Scoring(self, predictions, progress))
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


def padded(rows: Sequence[Sequence[Sequence[int]]]) -> tuple[np.ndarray, np.ndarray]:
  """Targets of inputs as int32 [B, N, T] and their lengths [B, N]; N is a power of two, so that programs are few."""
  most = 1 << (max(map(len, rows)) - 1).bit_length()
  longest = padded_length(max(len(ids) for row in rows for ids in row))
  targets, lengths = np.zeros((len(rows), most, longest), np.int32), np.zeros((len(rows), most), np.int32)
  for i, row in enumerate(rows):
    for j, ids in enumerate(row):
      targets[i, j, :len(ids)], lengths[i, j] = ids, len(ids)
  return targets, lengths


def _number(value: Any) -> float | None:
  """As JSON has it: None where a target has no probability at all."""
  return float(value) if math.isfinite(value) else None


class Scoring:
  """What a process scores of a job; see `carrying_out.Worker`."""

  def __init__(self, job: ScoreJob, predictions: Predictions, progress: Progress):
    self._job, self._predictions, self._progress = job, predictions, progress
    self._failures, self._scored = 0, False
    self._tokens, self._seconds, self._seconds_first = 0, 0.0, 0.0
    self._seen: set[tuple] = set()  # shapes that have a program

  def do(self, windows: Iterable[Window | None]) -> None:
    with stopping.postponed():
      for window in until_asked(windows):
        for place, reason in window.refused.items():
          self._fail(Item(window, place, 0), reason)
        for group in window.groups(self._job.options):
          if stopping.asked():
            return
          self._score(group)

  @property
  def timing(self) -> dict[str, Any]:
    """As `Work.timing`; the first pass of each shape counts as compiling."""
    return {'seconds': self._seconds, 'seconds_compiling': self._seconds_first, 'decoded_tokens': self._tokens,
            'row_iterations': 0, 'running_row_iterations': 0, 'calls': 0}

  def _score(self, group: list[Item]) -> None:
    """Where a group fails, its examples are scored one by one."""
    rows = [item.window.inputs.targets[item.place] for item in group]
    shape = group[0].length, *padded(rows)[0].shape[1:]
    begun = time.perf_counter()
    try:
      if shape in self._seen:
        lines = self._job.lines(group)
      else:
        with self._progress.compiling(f'for inputs of {shape[0]} tokens'):
          lines = self._job.lines(group)
    except Exception as e:
      if isinstance(e, UserError) and not self._scored and len(group) == 1:
        raise
      if len(group) > 1:
        for item in group:
          self._score([item])
        return
      self._failures += 1
      self._fail(group[0], e)
      if not self._scored or self._failures >= MAX_FAILED:
        raise
      return
    seconds = time.perf_counter() - begun
    count = sum(len(ids) for row in rows for ids in row)
    if shape in self._seen:
      self._seconds, self._tokens = self._seconds + seconds, self._tokens + count
    else:
      self._seconds_first += seconds
    self._seen.add(shape)
    self._scored = True
    self._predictions.add(lines)
    self._progress.add(len(group), count)

  def _fail(self, item: Item, error: Exception | str) -> None:
    self._predictions.add(failed_line(item, error))
    self._progress.add(1)


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
