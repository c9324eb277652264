"""Many inputs decoded batch after batch, and in rows that are filled again as they end: speed and idle rows."""

import dataclasses
import time
from typing import Any

import numpy as np

from specdec_jax.analysis.reliability import spread
from specdec_jax.jobs.decoded import records
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.stream import Window
from specdec_jax.jobs.work import Work
from specdec_jax.model import Model


@dataclasses.dataclass(frozen=True, kw_only=True)
class Throughput:
  """One way of decoding all inputs, compilation apart.

  Attributes:
    seconds: of each repeat.
    tokens: emitted, EOS counted.
    occupancy: row-iterations of running rows over all.
    calls: of the device, an encoder apart.
    texts: the tokens of each input, in order.
  """

  seconds: list[float]
  tokens: int
  occupancy: float
  calls: int
  texts: list[list[int]]

  @property
  def tokens_per_second(self) -> float:
    return self.tokens / float(np.median(self.seconds))

  @property
  def spread(self) -> float | None:
    """See `reliability.spread`."""
    return spread(np.array([self.seconds]))


class _Kept(dict):
  """Lines in memory, in place of `Predictions`."""

  def add(self, lines: dict[int, dict]) -> None:
    self.update(lines)


def both(target: Model, method: Method, inputs: Inputs, options: InputOptions, hand_back: int | None,
         repeats: int) -> tuple[Throughput, Throughput]:
  """Batch after batch, and rows filled again, in turns.

  Args:
    target, method: what decodes.
    inputs: encoded by `options`, whose `batch_size` is that of both ways.
    hand_back: of `Running`.
    repeats: timings of each way.
  """
  found: tuple[list[Throughput], list[Throughput]] = ([], [])
  with Progress(2 * repeats, f'batch size {options.batch_size}', 'pass') as progress:
    with progress.compiling():  # the loops' own compilations are counted apart
      for batch in {b.tokens.shape: b for b in options.batches(inputs)}.values():
        method(target, batch)
    for repeat in range(repeats):
      for way in (0, 1) if repeat % 2 == 0 else (1, 0):
        progress.say(('batch after batch', 'rows filled again')[way])
        found[way].append(refilled(target, method, inputs, options, hand_back) if way else
                          in_batches(target, method, inputs, options))
        progress.add(1)
  batches, rows = [dataclasses.replace(runs[-1], seconds=[s for r in runs for s in r.seconds]) for runs in found]
  return batches, rows


def in_batches(target: Model, method: Method, inputs: Inputs, options: InputOptions) -> Throughput:
  """One pass over all inputs, batch after batch; what is not compiled yet is compiled on the way."""
  kept, used, paid = _Kept(), 0, 0
  window = Window(list(range(len(inputs.rows))), inputs, {})
  batches = [*zip(window.groups(options), options.batches(inputs))]
  begun = time.perf_counter()
  for items, batch in batches:
    result = method(target, batch)
    kept.add(records(target, items, result))
    calls = result.stats.target_calls
    used, paid = used + int(calls[:len(items)].sum()), paid + int(calls.max()) * len(calls)
  return _outcome(time.perf_counter() - begun, kept, used / paid, len(batches))


def refilled(target: Model, method: Method, inputs: Inputs, options: InputOptions,
             hand_back: int | None = None) -> Throughput:
  """One pass over all inputs in rows that are filled again, compilations apart; hand_back is that of `Running`."""
  kept: Any = _Kept()
  window = Window(list(range(len(inputs.rows))), inputs, {})
  start = lambda length: method.running(target, options.batch_size, length, hand_back)
  with Progress(None, 'rows', shown=False) as progress:
    work = Work(start, target, options, kept, progress)
    work.do([window])
    timing = work.timing
  return _outcome(timing['seconds'], kept, timing['running_row_iterations'] / timing['row_iterations'], timing['calls'])


def _outcome(seconds: float, kept: dict, occupancy: float, calls: int) -> Throughput:
  texts = [kept[i]['tokens'] for i in sorted(kept)]
  return Throughput(seconds=[seconds], tokens=sum(map(len, texts)), occupancy=occupancy, calls=calls, texts=texts)
