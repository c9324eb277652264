"""Examples as a stream: windows, the thread that reads ahead, and memory that does not grow with the input."""

import itertools
import threading
import time
import tracemalloc

import jax
import numpy as np
import pytest

from specdec_jax.data.examples import Example, read_examples
from specdec_jax.errors import InputError
from specdec_jax.jobs import stream
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.work import Work
from specdec_jax.results import Result, Stats, Status

OPTIONS = InputOptions(batch_size=4, max_input_len=64)


def texts(count):
  return [Example(i, ('new media ' * (i % 5 + 1)).strip()) for i in range(count)]


def test_windows_hold_what_is_wanted_in_order(target, monkeypatch):
  monkeypatch.setattr(stream, 'WINDOW', 4)
  wanted = np.arange(11) % 3 != 0
  found = list(stream.windows(texts(11), wanted, target, OPTIONS))
  assert [w.indices for w in found] == [[1, 2, 4, 5], [7, 8, 10]]
  for window in found:
    assert window.inputs.rows == target.encode_rows([e.text for e in window.inputs.examples])
    items = list(itertools.chain(*window.groups(OPTIONS)))
    lengths = [len(window.inputs.rows[item.place]) for item in items]
    assert lengths == sorted(lengths, reverse=True) and sorted(i.place for i in items) == [*range(len(window.indices))]
  assert list(stream.windows(texts(3), np.zeros(3, bool), target, OPTIONS)) == []


def test_survey():
  ids, digest = stream.survey(texts(5))
  assert len(ids) == 5 and ids.is_at(4, 4) and digest == stream.survey(iter_again(5))[1] != stream.survey(texts(4))[1]
  with pytest.raises(InputError, match='Two examples have the id 2'):
    stream.survey([*texts(5), Example(2, 'a')])


class iter_again:
  """Examples that are made anew each time."""

  def __init__(self, count):
    self._count = count

  def __iter__(self):
    return iter(texts(self._count))


def test_reading_ahead_is_one_item_ahead_and_ends_with_who_asks():
  made = []

  def items():
    for i in range(100):
      made.append(i)
      yield i

  with stream.Ahead(items()) as ahead:
    asked = (i for i in ahead if i is not None)
    assert next(asked) == 0 and next(asked) == 1
    time.sleep(0.2)
    assert len(made) <= 5
  time.sleep(1.2)
  assert len(made) <= 6 and not [t for t in threading.enumerate() if t.name == 'reading ahead']


def test_what_reading_fails_with_is_raised_where_it_is_asked_for():
  def items():
    yield 1
    raise InputError('line 2')

  with pytest.raises(InputError, match='line 2'), stream.Ahead(items()) as ahead:
    assert [i for i in ahead if i] == [1]


class Instant:
  """In place of a `Running`: every input ends at once, with two tokens."""

  rows, hand_back, iterations = 4, 1, 0

  def __init__(self, length):
    self.length, self.running, self.waiting = length, [], []

  hungry = property(lambda self: len(self.running) + len(self.waiting) < self.rows)

  def compile(self, *unused):
    pass

  def encode(self, tags, *unused):
    self.waiting += tags

  def advance(self):
    self.running, self.waiting, self.iterations = self.waiting, [], self.iterations + 1

  def ended(self):
    items, self.running = self.running, []
    n = len(items)
    stats = jax.device_get(Stats.zeros(n, None)).replace(target_calls=np.full(n, 1), emitted=np.full(n, 2))
    return items, Result(tokens=np.full((n, 4), 5), lengths=np.full(n, 2), status=np.full(n, int(Status.EOS)),
                         scores=np.zeros(n, np.float32), stats=stats)


def most_memory(target, directory, count):
  """Bytes at the peak of a job of so many lines."""
  directory.mkdir()
  with open(directory / 'inputs.txt', 'w', encoding='utf-8') as f:
    f.writelines(f'new media {"window " * 30} {i}\n' for i in range(count))
  tracemalloc.start()
  try:
    examples = read_examples(directory / 'inputs.txt')
    ids, _ = stream.survey(examples)
    predictions = Predictions(str(directory), ids)
    options = InputOptions(batch_size=4, max_input_len=16, long_inputs='cut')
    with Progress(count, 'x', shown=False) as progress, stream.Ahead(
        stream.windows(examples, ~predictions.done, target, options)) as windows:
      Work(Instant, target, options, predictions, progress).do(windows)
    predictions.finish()
    assert predictions.complete and sum(1 for _ in predictions) == count
    return tracemalloc.get_traced_memory()[1]
  finally:
    tracemalloc.stop()


def test_memory_does_not_grow_with_the_input(target, tmp_path, monkeypatch):
  monkeypatch.setattr(stream, 'WINDOW', 50)
  most_memory(target, tmp_path / 'first', 200)  # what is made once
  few, many = (most_memory(target, tmp_path / f'{n}', n) for n in (300, 3000))
  assert many - few < 60 * 2700, 'an example has 220 characters alone'
