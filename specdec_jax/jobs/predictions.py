"""Predictions as JSON lines: appended as they come, put in input order at the end; none of them stays in memory."""

import contextlib
import json
import os
from collections.abc import Iterator, Sequence

import numpy as np

from specdec_jax.data.ids import Ids
from specdec_jax.errors import OutputError
from specdec_jax.files import writing
from specdec_jax.notes import note

FAILED = 'FAILED'
NAME, PARTIAL_NAME = 'predictions.jsonl', 'predictions.partial.jsonl'


class Predictions:
  """The predictions of one output directory, whose lock this process holds.

  What an earlier run wrote is found again: the lines of the partial file, and those of a final file that was
  damaged since. An example whose line is missing, torn or damaged is decoded again. In memory are 18 bytes an example
  and no line.

  Attributes:
    path: of the final file.
    ids: of the examples, in input order.
    done: bool [n], which examples have a prediction.
    failed: bool [n], those whose last attempt failed; they are tried again.
    partial_path: of the file that lines are appended to.
    complete: whether the final file stands, with a line for every example and none that failed.
  """

  def __init__(self, directory: str, ids: Ids | Sequence[int | str]):
    self.path, self.ids = os.path.join(directory, NAME), ids if isinstance(ids, Ids) else Ids.of(ids)
    self.partial_path = os.path.join(directory, PARTIAL_NAME)
    count = len(self.ids)
    self._offsets = np.full(count, -1, np.int64)  # of lines in the partial file
    self._end = 0  # of its last whole line
    self.done, self.failed = np.zeros(count, bool), np.zeros(count, bool)
    begun = os.path.exists(self.partial_path)
    in_final, in_order = np.zeros(count, bool), True
    for lines, (index, record) in enumerate(self._final()):
      in_order = in_order and lines == index and not _failed(record)
      in_final[index] = True
    self.complete = bool(not begun and in_order and in_final.all())
    if self.complete:
      self.done[:] = True
      return
    with writing.named(self.partial_path):
      self._file = open(self.partial_path, 'a+b', buffering=0)  # noqa: SIM115  closed by `close`
    self._find_earlier()
    if os.path.exists(self.path) and not begun:
      note(f"'{self.path}' is damaged: {in_final.sum()} of {count} examples have a whole line in it; "
           'the others are decoded again.')
    for index, record in self._final() if (in_final & (self._offsets < 0)).any() else ():
      if self._offsets[index] < 0:
        self.add({index: record})

  @property
  def num_done(self) -> int:
    """How many examples have a prediction; asked for from any thread."""
    return int(self.done.sum())

  def add(self, records: dict[int, dict]) -> None:
    """Appends a batch of records by place in the input.

    Raises:
      OutputError: the disk refuses, or another process changed the file; the lines before stay.
    """
    lines = {i: _line({'index': i, **record}) for i, record in records.items()}
    with writing.named(self.partial_path):
      here, there = os.fstat(self._file.fileno()), os.stat(self.partial_path)
      if here.st_ino != there.st_ino or here.st_size != self._end:
        raise OutputError(f"'{self.partial_path}' was changed by another process while this job ran; "
                          'see that nothing else writes there, and run the same command again.')
      left = memoryview(b''.join(lines.values()))
      try:
        while left:
          left = left[self._file.write(left):]
      except OSError:
        with contextlib.suppress(OSError):
          self._file.truncate(self._end)  # no torn line
        raise
    for index, line in lines.items():
      self._note(index, records[index], self._end)
      self._end += len(line)

  def finish(self) -> None:
    """Writes the final file, in input order; the partial one stays while anything is missing or failed."""
    if self.complete:
      return
    with writing.whole_file(self.path) as f:
      for record in self:
        f.write(_line(record))
    if self.done.all():
      self.close()
      with writing.named(self.partial_path):
        os.remove(self.partial_path)
      writing.sync_directory(os.path.dirname(self.path))
      self.complete = True

  def close(self) -> None:
    """Brings what was added to the disk."""
    if not self.complete and not self._file.closed:
      with writing.named(self.partial_path), self._file:
        os.fsync(self._file.fileno())

  def __iter__(self) -> Iterator[dict]:
    """The records so far, in input order."""
    return (record for _, record in self.items())

  def items(self) -> Iterator[tuple[int, dict]]:
    """The records with their places in the input, in that order."""
    if self.complete:
      yield from self._final()
      return
    with _readable(self.partial_path), open(self.partial_path, 'rb') as f:
      for index in map(int, np.flatnonzero(self._offsets >= 0)):
        f.seek(self._offsets[index])
        record = json.loads(f.readline())
        yield record.pop('index'), record

  def _final(self) -> Iterator[tuple[int, dict]]:
    """The whole lines of the final file, each at the place of its id."""
    following = 0
    for record, _, _ in _records(self.path):
      place = None if record is None else self.ids.place(record.get('id'), following)
      if record is not None and place is not None:
        yield place, record
        following = place + 1

  def _find_earlier(self):
    """Takes up what the partial file holds; a line that a crash tore off, at its end, is cut off."""
    for number, (record, start, end) in enumerate(_records(self.partial_path), 1):
      if end is None:
        break
      self._end = end
      if record is None:
        note(f"'{self.partial_path}', line {number}, is damaged; its example is decoded again.")
      elif not self.ids.is_at(record.get('index'), record.get('id')):
        raise OutputError(f"'{self.partial_path}', line {number}, is of another job (id {record.get('id')!r}); "
                          'name another directory with --output_dir=DIR, or move that file away.')
      else:
        self._note(record['index'], record, start)
    with writing.named(self.partial_path):
      self._file.truncate(self._end)

  def _note(self, index, record, offset):
    self._offsets[index] = offset
    self.failed[index] = _failed(record)
    self.done[index] = not self.failed[index]


def read_partial(directory: str) -> Iterator[tuple[int, dict]]:
  """Places and records in the partial file of another process, which may be writing it; nothing is changed."""
  for record, _, end in _records(os.path.join(directory, PARTIAL_NAME)):
    if record is not None and end is not None and 'index' in record:
      yield record.pop('index'), record


def _failed(record: dict) -> bool:
  return record.get('status') == FAILED


def _line(record: dict) -> bytes:
  """A record as JSON in UTF-8; half a surrogate pair, which that cannot hold, stays escaped."""
  return json.dumps(record, ensure_ascii=False, allow_nan=False).encode('utf-8', 'backslashreplace') + b'\n'


def _records(path: str) -> Iterator[tuple[dict | None, int, int | None]]:
  """(record, start, end) of each line: no record where it is damaged, no end where it is torn off."""
  if not os.path.exists(path):
    return
  start = 0
  with _readable(path), open(path, 'rb') as f:
    for line in f:
      whole = line.endswith(b'\n')
      try:
        record = json.loads(line) if whole else None
      except (ValueError, RecursionError):
        record = None
      yield record if isinstance(record, dict) else None, start, start + len(line) if whole else None
      start += len(line)


@contextlib.contextmanager
def _readable(path):
  try:
    yield
  except OSError as e:
    raise OutputError(f"'{path}' cannot be read ({e.strerror}).") from e
