"""Locks of directories. Owners that must not be this process are others, started and killed here."""

import dataclasses
import errno
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import pytest

from specdec_jax.errors import OutputError
from specdec_jax.files import locks
from specdec_jax.files.owners import this_process

ROOT = pathlib.Path(__file__).resolve().parents[2]
HOLDS = '''
import sys, time
from specdec_jax.files import locks
try:
  lock = locks.take(sys.argv[1])
except ValueError as e:
  print(e, flush=True)
else:
  print('taken', flush=True)
  sys.stdin.read()
  lock.release()
'''


def holder(directory) -> subprocess.Popen:
  """A process that takes the lock and holds it until its stdin is closed."""
  return subprocess.Popen([sys.executable, '-c', HOLDS, str(directory)], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)


def left_by(directory, **changes):
  """A lock file whose owner differs from this process in some fields."""
  owner = dataclasses.replace(this_process(True), token='another', **changes)
  (directory / locks.NAME).write_text(json.dumps(dataclasses.asdict(owner)))


@pytest.fixture(autouse=True)
def quick(monkeypatch):
  monkeypatch.setattr(locks, 'BEAT', 0.02)
  monkeypatch.setattr(locks, 'PATIENCE', 0.5)


def test_a_second_process_is_refused_by_name_until_the_first_gives_up(tmp_path):
  first = holder(tmp_path)
  assert first.stdout.readline() == 'taken\n'
  with pytest.raises(OutputError, match=rf"output_dir '{tmp_path}' is in use by process {first.pid} on .* "
                                        r'\(-c .*\), since 20\d\d-.*Wait for its end, or name another'):
    locks.take(str(tmp_path))
  first.communicate()
  assert not list(tmp_path.iterdir())
  with locks.held(str(tmp_path)):
    assert [f.name for f in tmp_path.iterdir()] == [locks.NAME]
  assert not list(tmp_path.iterdir())


def test_the_lock_of_a_killed_process_is_taken_over_at_once(tmp_path, capfd):
  first = holder(tmp_path)
  assert first.stdout.readline() == 'taken\n'
  first.kill()
  first.wait()
  start = time.monotonic()
  locks.take(str(tmp_path)).release()
  assert time.monotonic() - start < locks.PATIENCE
  assert f'process {first.pid} on' in capfd.readouterr().err


def test_one_of_many_that_start_at_once_over_a_dead_lock_gets_it(tmp_path):
  left_by(tmp_path, started='1')
  many = [holder(tmp_path) for _ in range(6)]
  said = [p.stdout.readline() for p in many]
  assert said.count('taken\n') == 1, said
  winner = many[said.index('taken\n')].pid
  assert all(f'by process {winner} on' in line or 'being taken by other jobs' in line
             for line in said if line != 'taken\n'), said
  for p in many:
    p.communicate()
  assert not list(tmp_path.iterdir())


@pytest.mark.parametrize('changes', [
    {'started': '1'},  # its pid was given away again
    {'pid': 2 ** 22 + 1},  # beyond Linux's largest
    {'processes': 'pid:[1]', 'pid': 1},  # a container of this machine; nobody holds its file
])
def test_owners_that_are_no_more_are_known_without_waiting(tmp_path, changes, monkeypatch):
  monkeypatch.setattr(locks, 'PATIENCE', 1e9)
  left_by(tmp_path, **changes)
  locks.take(str(tmp_path)).release()


def test_a_container_of_this_machine_that_holds_its_lock_is_respected(tmp_path):
  left_by(tmp_path, processes='pid:[1]', pid=1)
  with open(tmp_path / locks.NAME, 'rb') as f:
    assert locks._flock(f.fileno())
    with pytest.raises(OutputError, match='in use by process 1 on'):
      locks.take(str(tmp_path))


def test_another_machine_shows_that_it_lives_by_touching_its_lock(tmp_path, capfd):
  left_by(tmp_path, host='far', boot='another', pid=77)
  end = threading.Event()

  def touch():
    while not end.wait(0.05):
      os.utime(tmp_path / locks.NAME)

  thread = threading.Thread(target=touch)
  thread.start()
  try:
    with pytest.raises(OutputError, match=r"in use by process 77 on far .*if that is no more, remove '.*\.lock'"):
      locks.take(str(tmp_path))
  finally:
    end.set()
    thread.join()
  locks.take(str(tmp_path)).release()  # touched no more
  assert 'waiting' in capfd.readouterr().err


def test_a_damaged_lock_that_nobody_touches_is_taken_over(tmp_path):
  (tmp_path / locks.NAME).write_bytes(b'')
  locks.take(str(tmp_path)).release()


def test_a_lock_is_touched_while_it_is_held(tmp_path):
  with locks.held(str(tmp_path)):
    os.utime(tmp_path / locks.NAME, (1, 1))
    end = time.monotonic() + 5
    while (tmp_path / locks.NAME).stat().st_mtime < 2:
      assert time.monotonic() < end
      time.sleep(0.01)


def test_disks_without_flock_and_without_links(tmp_path, monkeypatch):
  def unsupported(*unused):
    raise OSError(errno.ENOTSUP, 'not supported')

  monkeypatch.setattr(locks.fcntl, 'flock', unsupported)
  monkeypatch.setattr(locks.os, 'link', unsupported)
  with locks.held(str(tmp_path)), pytest.raises(OutputError, match=f'in use by process {os.getpid()} on'):
    locks.take(str(tmp_path))
  assert not list(tmp_path.iterdir())
  left_by(tmp_path, started='1', flock=False)
  locks.take(str(tmp_path)).release()


@pytest.mark.parametrize('change, reason', [
    (lambda d: left_by(d, host='far', pid=78), 'was taken over by process 78 on far'),
    (lambda d: (d / locks.NAME).unlink(), 'or the lock in it was deleted'),
])
def test_a_lost_lock_is_noticed_and_another_ones_is_left_alone(tmp_path, change, reason):
  lost, seen = threading.Event(), []

  def on_lost(text):
    seen.append(text)
    lost.set()

  with locks.held(str(tmp_path), on_lost):
    change(tmp_path)
    assert lost.wait(5)
  assert reason in seen[0] and str(tmp_path) in seen[0]
  assert (tmp_path / locks.NAME).exists() == ('far' in reason)


def test_a_directory_that_cannot_be_written_is_named(tmp_path):
  with pytest.raises(OutputError, match=r"gone/\.lock' cannot be written \(No such file or directory"):
    locks.take(str(tmp_path / 'gone'))
  (tmp_path / 'file').touch()
  with pytest.raises(OutputError, match='Not a directory'):
    locks.take(str(tmp_path / 'file'))
