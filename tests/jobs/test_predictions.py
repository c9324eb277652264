import errno
import json
import os

import numpy as np
import pytest

from specdec_jax.errors import OutputError
from specdec_jax.jobs.predictions import FAILED, Predictions, read_partial

IDS = ['e0', 1, 'e2', 'größe']


def record(index, status='EOS'):
  return {index: {'id': IDS[index], 'text': f'größe {index}', 'status': status}}


def records(*indices):
  return {i: r for index in indices for i, r in record(index).items()}


def lines(path):
  with open(path, encoding='utf-8') as f:
    return [json.loads(line) for line in f]


def places(flags):
  return set(np.flatnonzero(flags).tolist())


@pytest.fixture
def finished(tmp_path):
  """A directory with the predictions of all."""
  predictions = Predictions(str(tmp_path), IDS)
  predictions.add(records(2, 0))
  predictions.add(records(3, 1))
  predictions.finish()
  return tmp_path


def test_the_final_file_is_in_input_order(finished):
  assert lines(finished / 'predictions.jsonl') == [*records(0, 1, 2, 3).values()]
  assert os.listdir(finished) == ['predictions.jsonl']
  again = Predictions(str(finished), IDS)
  assert again.complete and places(again.done) == {0, 1, 2, 3} and list(again) == [*records(0, 1, 2, 3).values()]


def test_what_a_crash_left_is_found_again(tmp_path):
  first = Predictions(str(tmp_path), IDS)
  first.add(records(3, 1))
  first.close()
  with open(tmp_path / 'predictions.partial.jsonl', 'ab') as f:
    f.write(b'{"index": 0, "id": "e0", "te')  # torn off
  second = Predictions(str(tmp_path), IDS)
  assert places(second.done) == {1, 3} and not second.complete
  second.add(records(0, 2))
  second.finish()
  assert lines(second.path) == [*records(0, 1, 2, 3).values()]


def test_a_partial_file_cut_anywhere_loses_the_torn_line_alone(tmp_path):
  first = Predictions(str(tmp_path), IDS)
  first.add(records(3, 1, 0))
  first.close()
  partial = tmp_path / 'predictions.partial.jsonl'
  whole = partial.read_bytes()
  ends = [i + 1 for i, byte in enumerate(whole) if byte == ord('\n')]
  for cut in range(len(whole) + 1):
    partial.write_bytes(whole[:cut])
    found = Predictions(str(tmp_path), IDS)
    assert places(found.done) == set([3, 1, 0][:sum(end <= cut for end in ends)])
    found.close()


def test_failed_examples_are_open_again(tmp_path):
  first = Predictions(str(tmp_path), IDS[:2])
  first.add(record(0) | record(1, FAILED))
  first.finish()
  assert [r['status'] for r in lines(first.path)] == ['EOS', FAILED]
  second = Predictions(str(tmp_path), IDS[:2])
  assert places(second.done) == {0} and places(second.failed) == {1} and not second.complete
  second.add(record(1))
  second.finish()
  assert [r['status'] for r in lines(second.path)] == ['EOS', 'EOS'] and second.complete


@pytest.mark.parametrize('keep', range(4))
def test_a_final_file_that_lost_lines_is_made_whole(finished, keep, capsys):
  path = finished / 'predictions.jsonl'
  path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[:keep]))
  predictions = Predictions(str(finished), IDS)
  assert not predictions.complete and places(predictions.done) == set(range(keep))
  assert f'{keep} of 4 examples have a whole line' in capsys.readouterr().err
  predictions.add(records(*range(keep, 4)))
  predictions.finish()
  assert lines(path) == [*records(0, 1, 2, 3).values()] and predictions.complete


@pytest.mark.parametrize('change, left', [
    (lambda data: data[:-5], {0, 1, 2}),
    (lambda data: data[:3] + data[5:], {1, 2, 3}),
    (lambda data: b'\0' * 40 + data[40:], {1, 2, 3}),
    (lambda data: data.split(b'\n', 1)[1] + data.split(b'\n', 1)[0] + b'\n', {0, 1, 2, 3}),
    (lambda data: data + data.splitlines(keepends=True)[0], {0, 1, 2, 3}),
])
def test_a_final_file_that_is_damaged_is_made_whole(finished, change, left):
  path = finished / 'predictions.jsonl'
  path.write_bytes(change(path.read_bytes()))
  predictions = Predictions(str(finished), IDS)
  assert not predictions.complete and places(predictions.done) == left
  predictions.add(records(*{0, 1, 2, 3} - left))
  predictions.finish()
  assert lines(path) == [*records(0, 1, 2, 3).values()]


def test_lines_of_another_process_are_noticed(tmp_path):
  first = Predictions(str(tmp_path), IDS)
  first.add(record(0))
  with open(tmp_path / 'predictions.partial.jsonl', 'ab') as f:
    f.write(b'{"index": 1, "id": 1}\n')
  with pytest.raises(OutputError, match=r"partial\.jsonl' was changed by another process"):
    first.add(record(2))
  os.remove(tmp_path / 'predictions.partial.jsonl')
  second = Predictions(str(tmp_path), IDS)
  second.add(record(1))
  with pytest.raises(OutputError, match='was changed by another process'):
    first.add(record(2))
  assert places(Predictions(str(tmp_path), IDS).done) == {1}


@pytest.mark.parametrize('line', [b'{"index": 1, "id": "e0"}', b'{"index": 7, "id": "e7"}', b'{"id": "e0"}',
                                  b'{"index": "0", "id": "e0"}', b'{"index": 0, "id": ["e0"]}', b'{}'])
def test_lines_of_another_job_are_refused(tmp_path, line):
  good = json.dumps({'index': 0, **record(0)[0]}).encode()
  (tmp_path / 'predictions.partial.jsonl').write_bytes(good + b'\n' + line + b'\n')
  with pytest.raises(OutputError, match=r"partial\.jsonl', line 2, is of another job"):
    Predictions(str(tmp_path), IDS)
  assert (tmp_path / 'predictions.partial.jsonl').read_bytes() == good + b'\n' + line + b'\n'


@pytest.mark.parametrize('junk', [b'junk\n', b'\0\0\0\n', b'[1]\n', b'[' * 100_000 + b'\n', b'\xff\n'])
def test_a_damaged_line_loses_nothing_after_it(tmp_path, junk, capsys):
  first = Predictions(str(tmp_path), IDS)
  first.add(record(0))
  first.close()
  with open(tmp_path / 'predictions.partial.jsonl', 'ab') as f:
    f.write(junk + json.dumps({'index': 2, **record(2)[2]}).encode() + b'\n')
  second = Predictions(str(tmp_path), IDS)
  assert places(second.done) == {0, 2} and "line 2, is damaged; its example is decoded again" in capsys.readouterr().err
  second.add(records(1, 3))
  second.finish()
  assert lines(second.path) == [*records(0, 1, 2, 3).values()]


def test_half_a_surrogate_pair_stops_nothing(tmp_path):
  predictions = Predictions(str(tmp_path), ['\ud800', 'b'])
  predictions.add({0: {'id': '\ud800', 'text': 'a \udcff'}, 1: {'id': 'b', 'text': 'größe'}})
  assert places(Predictions(str(tmp_path), ['\ud800', 'b']).done) == {0, 1}
  predictions.finish()
  assert lines(predictions.path) == [{'id': '\ud800', 'text': 'a \udcff'}, {'id': 'b', 'text': 'größe'}]
  assert b'gr\xc3\xb6\xc3\x9fe' in (tmp_path / 'predictions.jsonl').read_bytes()


class Full:
  """A file on a disk that takes so many bytes more."""

  def __init__(self, file, room):
    self._file, self.room = file, room

  def write(self, data):
    if not self.room:
      raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    written = self._file.write(data[:self.room])
    self.room -= written
    return written

  def __getattr__(self, name):
    return getattr(self._file, name)


@pytest.mark.parametrize('room', [0, 1, 100])
def test_a_full_disk_is_named_and_leaves_no_torn_line(tmp_path, room):
  predictions = Predictions(str(tmp_path), IDS)
  predictions.add(record(0))
  before = (tmp_path / 'predictions.partial.jsonl').read_bytes()
  predictions._file = Full(predictions._file, room)
  with pytest.raises(OutputError, match=r"partial\.jsonl' cannot be written \(No space left on device; make room"):
    predictions.add(records(1, 2))
  assert (tmp_path / 'predictions.partial.jsonl').read_bytes() == before and places(predictions.done) == {0}
  predictions._file.room = 1000
  predictions.add(records(1, 2, 3))
  predictions._file = predictions._file._file
  predictions.finish()
  assert predictions.complete


def test_things_in_the_way_are_named(tmp_path):
  (tmp_path / 'a' / 'predictions.partial.jsonl').mkdir(parents=True)
  with pytest.raises(OutputError, match=r"a/predictions\.partial\.jsonl' cannot be written \(Is a directory"):
    Predictions(str(tmp_path / 'a'), IDS)
  (tmp_path / 'b' / 'predictions.jsonl').mkdir(parents=True)
  with pytest.raises(OutputError, match=r"b/predictions\.jsonl' cannot be read \(Is a directory"):
    Predictions(str(tmp_path / 'b'), IDS)
  with pytest.raises(OutputError, match="its directory is gone"):
    Predictions(str(tmp_path / 'c'), IDS)


def test_a_file_that_another_process_writes_is_read_without_a_change(tmp_path):
  first = Predictions(str(tmp_path), IDS)
  first.add(record(2))
  with open(tmp_path / 'predictions.partial.jsonl', 'ab') as f:
    f.write(b'{"index": 1, "id"')
  before = (tmp_path / 'predictions.partial.jsonl').read_bytes()
  assert list(read_partial(str(tmp_path))) == [(2, record(2)[2])]
  assert (tmp_path / 'predictions.partial.jsonl').read_bytes() == before
  assert list(read_partial(str(tmp_path / 'nothing'))) == []
