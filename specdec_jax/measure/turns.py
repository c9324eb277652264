"""Decoders that take turns over a few texts, one at a time, and a table of what came out: for notebooks."""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from specdec_jax.analysis import reliability
from specdec_jax.data.examples import Example
from specdec_jax.data.padding import padded_length
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure import experiment
from specdec_jax.measure.timing import Timed, time_methods
from specdec_jax.model import Model
from specdec_jax.reports.tables import markdown, number
from specdec_jax.reports.words import unreliable


@dataclasses.dataclass(frozen=True, repr=False)
class Turns:
  """What `take_turns` returns; shows itself as a table, printed and in notebooks.

  Attributes:
    batches: of one text each, in the order of the texts.
    timed: by the names of the methods; the first is what the others are compared with.
  """

  batches: list[Batch]
  timed: dict[str, Timed]

  @property
  def reasons(self) -> list[str]:
    """Why the timings cannot be trusted; empty where they can."""
    return reliability.of_repeats({name: t.spread for name, t in self.timed.items()})

  def speed_up(self, name: str) -> float:
    """Tokens a second over those of the first method."""
    return self._speed(name) / self._speed(next(iter(self.timed)))

  def tokens_per_call(self, name: str) -> float:
    """Emitted tokens over target calls."""
    timed = self.timed[name]
    return timed.count('emitted', self.batches) / timed.count('target_calls', self.batches)

  def equal_texts(self, name: str) -> int:
    """How many texts are the first method's, token for token."""
    first = next(iter(self.timed.values()))
    return sum(np.array_equal(a.tokens, b.tokens) for a, b in zip(self.timed[name].results, first.results))

  def markdown(self) -> str:
    """A row a method; no time where the timings are unreliable, and a warning instead."""
    greedy, reasons = all(t.method.sampling.greedy for t in self.timed.values()), self.reasons
    rows = []
    for name in self.timed:
      times = (None, None) if reasons else (self._speed(name), self.speed_up(name))
      equal = [f'{self.equal_texts(name)} of {len(self.batches)}'] if greedy else []
      rows.append([name, *equal, number(self.tokens_per_call(name)), number(times[0], 0), number(times[1], 2, 'X')])
    header = ['decoder', *(['texts equal'] if greedy else []), 'tokens per target call', 'tokens/s', 'speed-up']
    return markdown(header, rows) + unreliable('The decoders', reasons, 'repeats')

  def __repr__(self) -> str:
    return self.markdown()

  def _repr_markdown_(self) -> str:
    return self.markdown()

  def _speed(self, name: str) -> float:
    return experiment.speed(self.batches, self.timed[name])['tokens_per_second']


def take_turns(target: Model, methods: Mapping[str, Method], texts: Sequence[str], *, prefix: str = '',
               repeats: int = 3) -> Turns:
  """Decodes the texts one at a time by each method in turn, after compiling a program for each.

  Args:
    target: the `Model`.
    methods: by the names that the table has.
    texts: inputs of an encoder, or prompts; all padded to one length.
    prefix: put before each.
    repeats: timings of each text, of which the median counts.
  """
  longest = max(map(len, target.encode_rows([prefix + text for text in texts])))
  options = InputOptions(max_input_len=padded_length(longest), buckets=(padded_length(longest),), prefix=prefix)
  inputs = options.encode(target, [Example(i, text) for i, text in enumerate(texts)])
  batches = sorted(options.batches(inputs), key=lambda batch: batch.indices[0])  # as the texts stand
  timed = time_methods(target, list(methods.values()), batches, repeats, 'by turns')
  return Turns(batches, dict(zip(methods, timed)))
