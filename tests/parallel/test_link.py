"""Links of a job's processes, here threads of one process with sockets between them."""

import socket
import struct
import threading
import time

import pytest

from specdec_jax.errors import HostFailed
from specdec_jax.parallel import link as link_lib
from specdec_jax.parallel.link import Connection, Link


class Job:
  """The links of `count` processes, and what each was told of a failure."""

  def __init__(self, count):
    self.reasons = {i: [] for i in range(count)}
    pairs = {i: socket.socketpair() for i in range(1, count)}
    pairs = {i: tuple(map(Connection, pair)) for i, pair in pairs.items()}
    self.links = [Link(0, count, {i: pair[0] for i, pair in pairs.items()}, self.reasons[0].append)]
    self.links += [Link(i, count, {0: pair[1]}, self.reasons[i].append) for i, pair in pairs.items()]


@pytest.fixture
def job(monkeypatch):
  made = []
  monkeypatch.setattr(socket.socket, 'setsockopt', lambda *unused: None)  # socketpairs are no TCP
  yield lambda count: made.append(Job(count)) or made[-1]
  for one in made:
    threads = [threading.Thread(target=link.close) for link in one.links]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()


def until(condition):
  end = time.monotonic() + 10
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.01)


def test_values_arrive_in_order_by_name_and_sender(job):
  zero, one, two = job(3).links
  for value in ({'a': [1, None, 'ü\ud800']}, [], 'x' * 3_000_000):
    one.send('name', value)
    assert zero.hear('name', 1) == value
  two.send('a', 1)
  two.send('b', 2)
  two.send('a', 3)
  assert zero.hear('b', 2) == 2 and [zero.hear('a', 2), zero.hear('a', 2)] == [1, 3]
  zero.send('all', 'yes')
  assert one.hear('all', 0) == two.hear('all', 0) == 'yes'


def test_the_reason_of_one_reaches_all_others_and_the_first_counts(job):
  made = job(3)
  zero, one, two = made.links
  one.end('process 1 failed: out of something')
  until(lambda: zero.failure and two.failure)
  two.end('process 2 failed too')
  for link in (zero, two):
    with pytest.raises(HostFailed, match='^process 1 failed: out of something$'):
      link.check()
    with pytest.raises(HostFailed):
      link.hear('nothing', 0)
  until(lambda: all(made.reasons[i] for i in (0, 2)))
  assert made.reasons[0] == made.reasons[2] == ['process 1 failed: out of something']


@pytest.mark.parametrize('dead', [0, 1])
def test_a_process_that_dies_is_named(job, dead):
  """As the system closes the connections of a killed process."""
  made = job(3)
  made.links[dead]._closing.set()  # the dead tell nothing
  for connection in made.links[dead]._peers.values():
    connection._socket.shutdown(socket.SHUT_RDWR)
  living = [link for link in made.links if link.index != dead]
  until(lambda: all(link.failure for link in living))
  for link in living:
    with pytest.raises(HostFailed, match=f'^process {dead} is gone: it was killed'):
      link.check()


def test_a_process_that_waits_learns_of_a_death(job):
  made = job(2)
  caught = []

  def wait():
    try:
      made.links[1].hear('never', 0)
    except HostFailed as e:
      caught.append(str(e))

  thread = threading.Thread(target=wait)
  thread.start()
  made.links[0]._peers[1]._socket.shutdown(socket.SHUT_RDWR)
  thread.join(10)
  assert caught and 'process 0 is gone' in caught[0]


def test_silence_is_noticed_and_signs_of_life_prevent_it(job, monkeypatch):
  monkeypatch.setattr(link_lib, 'PATIENCE', 1.0)
  monkeypatch.setattr(link_lib, 'BEAT', 0.1)
  zero, one = job(2).links
  time.sleep(1.5)
  zero.check()
  one.check()
  one._closing.set()  # shows no more life, as a machine that went down
  until(lambda: zero.failure)
  with pytest.raises(HostFailed, match='process 1 is gone: it has been silent for 1 s'):
    zero.check()


def test_an_end_in_order_is_no_failure(job):
  made = job(3)
  made.links[2].close()
  time.sleep(0.2)
  made.links[0].check()
  made.links[1].send('x', 1)
  assert made.links[0].hear('x', 1) == 1


def test_what_is_no_message_ends_the_connection(job):
  made = job(2)
  made.links[1]._peers[0]._socket.sendall(struct.pack('>Q', 3) + b'{}]')
  until(lambda: made.links[0].failure)


def test_a_greeting_has_a_limit():
  a, b = socket.socketpair()
  with a, b:
    a.sendall(struct.pack('>Q', 10 ** 12))
    reader = Connection.__new__(Connection)
    reader._socket = b
    with pytest.raises(ValueError, match='a message of 1000000000000 bytes'):
      reader.receive(most=1000)
