"""The work of a decode job: inputs through running loops to lines of predictions; an example that fails stops no other.

While the device iterates, the host writes what ended before and reads what comes next.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import jax

from specdec_jax import stopping
from specdec_jax.decoding.running import Running
from specdec_jax.jobs.decoded import records
from specdec_jax.jobs.failures import Failures
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.stream import Item, Window, groups_until_asked
from specdec_jax.model import Model
from specdec_jax.parallel import hosts
from specdec_jax.results import Result, acceptance_rate


class Work:
  """What a process decodes of a job.

  There is a loop for some lengths of inputs (`InputOptions.loop_lengths`), each made when it is first needed and kept
  running to the end of the job: rows that wait for the next input of their loop's lengths are picked up again then.
  """

  def __init__(self, start: Callable[[int], Running], target: Model, options: InputOptions, predictions: Predictions,
               progress: Progress, best_first: bool = False):
    """`start` makes the loop for inputs of up to so many tokens; `best_first` is of `records`."""
    self._start, self._target, self._options, self._best_first = start, target, options, best_first
    self._predictions, self._progress = predictions, progress
    self._loops: dict[int, Running] = {}  # by length
    self._compiled: set[tuple[int, int]] = set()  # lengths of loop and inputs
    self._ended: tuple[list[Item], Result] | None = None  # not written yet
    self._failures = Failures(predictions, progress)
    self._tokens, self._compiling_seconds = 0, 0.0
    self._since: float | None = None
    self._drafted, self._accepted = 0, 0
    self._used, self._paid, self._calls = 0, 0, 0  # row-iterations, and returns of loops

  def do(self, windows: Iterable[Window | None]) -> None:
    """Decodes all of the windows; None among them stands for one that is not ready.

    Where the command is stopped, rows that run come to their end, and nothing else is begun.

    Raises:
      UserError: a setting that no input can be decoded with, or an output that cannot be written.
      Exception: what the decoder failed with, where nothing of what was tried first can be decoded, or MAX_FAILED
        times; the examples are recorded before.
    """
    with stopping.postponed():
      for group in groups_until_asked(windows, self._options, self._failures.record):
        self._since = self._since or time.perf_counter()
        self._feed(group)
      for loop in list(self._loops.values()):
        if stopping.asked():
          loop.forget_waiting()
        while loop.running or loop.waiting:
          if not self._step(loop):
            break
      self._write()

  @property
  def timing(self) -> dict[str, Any]:
    """Seconds, tokens and row-iterations of what was decoded here; compilations are counted apart."""
    total = 0.0 if self._since is None else time.perf_counter() - self._since
    return {'seconds': total - self._compiling_seconds, 'seconds_compiling': self._compiling_seconds,
            'decoded_tokens': self._tokens, 'row_iterations': self._paid, 'running_row_iterations': self._used,
            'calls': self._calls}

  def _feed(self, group: list[Item]) -> None:
    length = min(n for n in self._options.loop_lengths if n >= group[0].length)
    loop = self._loop(length, group)
    if loop is None or not self._try(loop, lambda: loop.encode(group, *self._arrays(group)), group):
      return
    while not loop.hungry and not stopping.asked():
      if not self._step(loop):
        return

  def _step(self, loop: Running) -> bool:
    """One return of a loop; False where it failed and is no more."""
    hosts.check()
    before = loop.iterations
    going_on = self._try(loop, loop.advance)
    self._write()
    if not going_on or not self._try(loop, lambda: self._note(loop.ended())):
      return False
    self._paid += (loop.iterations - before) * loop.rows
    self._calls += 1
    return True

  def _note(self, ended: tuple[list[Item], Result]) -> None:
    self._ended = ended
    self._used += int(ended[1].stats.target_calls.sum())

  def _loop(self, length: int, group: list[Item]) -> Running | None:
    """The loop of a length, whose programs for the group's inputs are compiled; None where that failed."""
    shape = length, group[0].length
    if shape in self._compiled and length in self._loops:
      return self._loops[length]
    begun = time.perf_counter()
    with self._progress.compiling(f'for inputs of {shape[1]} tokens'):
      try:
        loop = self._loops.get(length) or self._start(length)
        self._loops[length] = loop
        loop.compile(*self._arrays(group))
      except Exception as e:
        self._rescue(length, group, e)
        return None
      finally:
        self._compiling_seconds += time.perf_counter() - begun
    self._compiled.add(shape)
    return loop

  def _arrays(self, group: list[Item]) -> tuple:
    return self._options.batch(group[0].window.inputs, [item.place for item in group], group[0].length).arrays

  def _try(self, loop: Running, call: Callable[[], Any], beside: Iterable[Item] = ()) -> bool:
    """Calls something of a loop; where it fails, all that the loop holds, and what stands beside, goes on alone."""
    try:
      call()
    except Exception as e:
      self._rescue(loop.length, [*loop.running, *loop.waiting, *beside], e)
      return False
    return True

  def _rescue(self, length: int, items: list[Item], error: Exception) -> None:
    """Decodes what a loop held that failed, one by one, where that may help."""
    self._write()
    self._failures.end_by_setting(error)
    self._loops.pop(length, None)
    items = list(dict.fromkeys(items))
    if 'RESOURCE_EXHAUSTED' in str(error):  # alone a row takes as much memory
      self._failures.count(error, items)
      self._failures.end(error)
      return
    loop = None
    for item in items:
      hosts.check()
      if stopping.asked():
        return
      try:
        loop = loop or self._start(length)
        loop.encode([item], *self._arrays([item]))
        while loop.running or loop.waiting:
          loop.advance()
          ended = loop.ended()
      except Exception as e:
        loop, error = None, e
        self._failures.count(e, [item])
      else:
        self._ended = ended
        self._write()
    self._failures.end(error)
    if loop is not None:
      self._loops[length] = loop

  def _write(self) -> None:
    """Lines of what ended."""
    ended, self._ended = self._ended, None
    if ended is None or not ended[0]:
      return
    items, result = ended
    try:
      lines = records(self._target, items, result, self._best_first)
    except Exception as e:
      if len(items) > 1:
        samples = len(result.lengths) // len(items)
        for start, item in zip(range(0, len(result.lengths), samples), items):
          self._ended = [item], jax.tree.map(lambda x, at=start: x[at:at + samples], result)
          self._write()
        return
      self._failures.count(e, items)
      self._failures.end(e)
      return
    self._predictions.add(lines)
    self._failures.anything_done = True
    stats, tokens = result.stats, int(result.lengths.sum())
    self._tokens += tokens
    self._drafted, self._accepted = self._drafted + int(stats.drafted.sum()), self._accepted + int(stats.accepted.sum())
    words = [f'{self._used / self._paid:.0%} occupied'] if self._paid else []
    if rate := acceptance_rate(self._accepted, self._drafted):
      words.append(f'{rate:.0%} accepted')
    self._progress.add(len(items), tokens, ', '.join(words))


def combined(timings: list[dict]) -> dict:
  """`Work.timing` of all processes as one: speeds add up, the slowest has the time."""
  total = lambda name: sum(t[name] for t in timings)
  speeds = [t['decoded_tokens'] / t['seconds'] for t in timings if t['decoded_tokens'] and t['seconds']]
  paid = total('row_iterations')
  return {**{name: max(t[name] for t in timings) for name in ('seconds', 'seconds_compiling')},
          'tokens_per_second': sum(speeds) if speeds else None,
          'occupancy': total('running_row_iterations') / paid if paid else None}
