"""The work of a score job: groups of inputs of one length to lines; an example that fails stops no other."""

import time
from collections.abc import Callable, Iterable
from typing import Any

from specdec_jax import stopping
from specdec_jax.jobs.failures import Failures
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.score_inputs import ScoreOptions, padded
from specdec_jax.jobs.stream import Item, Window, groups_until_asked


class Scoring:
  """What a process scores of a job; see `carrying_out.Worker`."""

  def __init__(self, lines: Callable[[list[Item]], dict[int, dict]], options: ScoreOptions, predictions: Predictions,
               progress: Progress):
    """`lines` makes those of inputs of one length, by place in the job's input."""
    self._lines, self._options, self._predictions, self._progress = lines, options, predictions, progress
    self._failures = Failures(predictions, progress)
    self._tokens, self._seconds, self._seconds_first = 0, 0.0, 0.0
    self._seen: set[tuple] = set()  # shapes that have a program

  def do(self, windows: Iterable[Window | None]) -> None:
    with stopping.postponed():
      for group in groups_until_asked(windows, self._options, self._failures.record):
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
        lines = self._lines(group)
      else:
        with self._progress.compiling(f'for inputs of {shape[0]} tokens'):
          lines = self._lines(group)
    except Exception as e:
      if len(group) > 1:
        for item in group:
          self._score([item])
        return
      self._failures.end_by_setting(e)
      self._failures.count(e, group)
      self._failures.end(e)
      return
    seconds = time.perf_counter() - begun
    count = sum(len(ids) for row in rows for ids in row)
    if shape in self._seen:
      self._seconds, self._tokens = self._seconds + seconds, self._tokens + count
    else:
      self._seconds_first += seconds
    self._seen.add(shape)
    self._failures.anything_done = True
    self._predictions.add(lines)
    self._progress.add(len(group), count)
