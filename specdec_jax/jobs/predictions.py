"""Predictions as JSON lines: appended as they come, put in input order at the end."""

import json
import os
from collections.abc import Iterator

FAILED = 'FAILED'


class Predictions:
  """The predictions of one output directory; what an earlier run wrote is found again.

  Attributes:
    total: how many inputs there are.
    done: places in the input of the examples that have a prediction.
    failed: places of those whose last attempt failed; they are tried again.
    complete: whether the final file stands already.
  """

  def __init__(self, directory: str, total: int):
    directory = os.path.expanduser(directory)
    self.path = os.path.join(directory, 'predictions.jsonl')
    self._partial_path = os.path.join(directory, 'predictions.partial.jsonl')
    self.total = total
    self._offsets, self.failed = {}, set()
    self.complete = os.path.exists(self.path) and not os.path.exists(self._partial_path)
    if self.complete:
      self._offsets = dict.fromkeys(range(total))
      return
    self._file = open(self._partial_path, 'a+b')
    self._find_earlier()

  @property
  def done(self) -> set[int]:
    return set(self._offsets) - self.failed

  def add(self, records: dict[int, dict]) -> None:
    """Appends a batch of records by place in the input, and flushes."""
    for index, record in records.items():
      line = json.dumps({'index': index, **record}, ensure_ascii=False, allow_nan=False) + '\n'
      self._note(index, record, self._file.tell())
      self._file.write(line.encode())
    self._file.flush()

  def finish(self) -> None:
    """Writes the final file, in input order; the partial one stays while anything failed."""
    if self.complete:
      return
    with open(self.path + '.new', 'w', encoding='utf-8') as f:
      for record in self:
        f.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + '\n')
    os.replace(self.path + '.new', self.path)
    if not self.failed and len(self._offsets) == self.total:
      self._file.close()
      os.remove(self._partial_path)
      self.complete = True

  def __iter__(self) -> Iterator[dict]:
    """The records so far, in input order."""
    return (record for _, record in self.items())

  def items(self) -> Iterator[tuple[int, dict]]:
    """The records with their places in the input, in that order."""
    if self.complete:
      with open(self.path, encoding='utf-8') as f:
        yield from enumerate(map(json.loads, f))
      return
    self._file.flush()
    with open(self._partial_path, 'rb') as f:
      for index in sorted(self._offsets):
        f.seek(self._offsets[index])
        record = json.loads(f.readline())
        yield record.pop('index'), record

  def _find_earlier(self):
    self._file.seek(0)
    end = 0
    for line in self._file:
      try:
        record = json.loads(line)
        index = record['index']
      except (ValueError, KeyError, TypeError):
        break
      if not line.endswith(b'\n'):
        break
      self._note(index, record, end)
      end += len(line)
    self._file.truncate(end)  # a line that a crash tore off, and nothing else, is lost
    self._file.seek(0, os.SEEK_END)

  def _note(self, index, record, offset):
    self._offsets[index] = offset
    (self.failed.add if record.get('status') == FAILED else self.failed.discard)(index)
