"""A job's examples as a stream: read, tokenized and sorted ahead of the device, a window at a time.

An iterable of examples is gone through twice: once for what all of them are (`survey`), once to decode them. Two
windows are in memory, and the one that is being read.
"""

import array
import dataclasses
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from specdec_jax import stopping
from specdec_jax.data.examples import Example
from specdec_jax.data.ids import Ids, number
from specdec_jax.jobs import fingerprint
from specdec_jax.jobs.inputs import InputOptions, Inputs
from specdec_jax.model import Model
from specdec_jax.parallel import hosts

WINDOW = 4096  # examples that are sorted by length together


class Item(NamedTuple):
  """An input of a window.

  Attributes:
    window: that it is of.
    place: there.
    length: that it is padded to.
  """

  window: 'Window'
  place: int
  length: int


@dataclasses.dataclass(frozen=True, eq=False)
class Window:
  """Examples that follow each other in the input, but for those that are done.

  Attributes:
    indices: of each, in the job's input.
    inputs: encoded.
    refused: places of those that cannot be decoded, and why.
  """

  indices: list[int]
  inputs: Inputs
  refused: dict[int, str]

  def groups(self, options: InputOptions) -> Iterator[list[Item]]:
    """Up to `options.batch_size` at once that are padded to one length; the longest first."""
    places = (i for i in range(len(self.indices)) if i not in self.refused)
    for length, members in options.groups(self.inputs, places):
      yield [Item(self, place, length) for place in members]


def survey(examples: Iterable[Example], see: Callable[[Example], None] | None = None) -> tuple[Ids, str]:
  """What a job is tied to: the ids of all examples, which differ, and a digest of all their contents.

  Args:
    examples: of the job.
    see: called with each of them.

  Raises:
    InputError: two have one id.
  """
  numbers = array.array('Q')

  def counted():
    for example in examples:
      numbers.append(number(example.id))
      if see is not None:
        see(example)
      yield example

  digest = fingerprint.of_examples(counted())
  ids = Ids(np.array(numbers, np.uint64))
  ids.check(example.id for example in examples)
  return ids, digest


def windows(examples: Iterable[Example], wanted: np.ndarray, model: Model, options: InputOptions) -> Iterator[Window]:
  """The examples that are True in bool [n], in their order.

  Raises:
    InputError: one of the first window's cannot be decoded, which is found before anything is; later ones are
      `refused`.
  """
  picked, first = [], True

  def window():
    inputs, refused = options.encode_what_fits(model, [example for _, example in picked])
    if first:
      options.check_none(inputs, refused)
    return Window([index for index, _ in picked], inputs, refused)

  for index, example in enumerate(examples):
    if wanted[index]:
      picked.append((index, example))
    if len(picked) == WINDOW:
      yield window()
      picked, first = [], False
  if picked:
    yield window()


def groups_until_asked(windows: Iterable[Window | None], options: InputOptions,
                       refuse: Callable[[Item, str], None]) -> Iterator[list[Item]]:
  """The groups of the windows that `Ahead` has ready, until this process is asked to stop.

  Fails where another process has failed. `refuse` is called with each input that cannot be decoded, and why.
  """
  for window in windows:
    hosts.check()
    if stopping.asked():
      return
    if window is None:
      continue
    for place, reason in window.refused.items():
      refuse(Item(window, place, 0), reason)
    for group in window.groups(options):
      if stopping.asked():
        return
      yield group


class Ahead:
  """Goes through an iterator in a thread of its own, one item ahead of who asks; used as a context."""

  def __init__(self, items: Iterator):
    self._items, self._ready = items, queue.Queue(1)
    self._closed = threading.Event()
    self._thread = threading.Thread(target=self._read, name='reading ahead', daemon=True)

  def __enter__(self) -> 'Ahead':
    self._thread.start()
    return self

  def __exit__(self, *unused) -> None:
    self._closed.set()

  def __iter__(self) -> Iterator:
    """Raises what the iterator raised; ends early where the context is closed."""
    while not self._closed.is_set():
      try:
        kind, item = self._ready.get(timeout=0.5)
      except queue.Empty:
        yield None  # whoever asks may have something else to do
        continue
      if kind == 'error':
        raise item
      if kind == 'end':
        return
      yield item

  def _read(self):
    try:
      for item in self._items:
        self._put('item', item)
        if self._closed.is_set():
          return
      self._put('end', None)
    except BaseException as e:
      self._put('error', e)

  def _put(self, kind: str, item: Any):
    while not self._closed.is_set():
      try:
        self._ready.put((kind, item), timeout=0.5)
        return
      except queue.Full:
        pass
