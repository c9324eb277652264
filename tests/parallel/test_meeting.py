"""How processes of a job find each other, here threads of one process."""

import socket
import threading

import pytest

from specdec_jax.errors import HostFailed, SettingError
from specdec_jax.parallel import meeting


@pytest.fixture
def address():
  with socket.socket() as s:
    s.bind(('localhost', 0))
    return f'localhost:{s.getsockname()[1]}'


def meet_all(address, *asked, timeout=10):
  """What each (count, index) of `asked` got: its connections, or the error."""
  found = [None] * len(asked)

  def one(at, count, index):
    try:
      found[at] = meeting.meet(address, count, index, timeout)
    except ValueError as e:
      found[at] = e

  threads = [threading.Thread(target=one, args=(at, *a)) for at, a in enumerate(asked)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  return found


def test_all_meet_in_whatever_order_they_come(address):
  two, zero, one = meet_all(address, (3, 2), (3, 0), (3, 1))
  assert set(zero) == {1, 2} and set(one) == set(two) == {0}
  for index, theirs in ((1, one), (2, two)):
    zero[index].send(['hello', index])
    assert theirs[0].receive() == ['hello', index]


def test_one_process_alone_needs_no_one(address):
  assert meeting.meet(address, 1, 0, 5) == {}


def test_strangers_are_ignored(address):
  host, port = meeting.split(address)
  threading.Timer(0.3, lambda: socket.create_connection((host, port)).sendall(b'GET / HTTP/1.1\r\n\r\n')).start()
  threading.Timer(0.4, lambda: socket.create_connection((host, port)).close()).start()
  threading.Timer(0.8, lambda: meeting.meet(address, 2, 1, 5)).start()
  assert set(meeting.meet(address, 2, 0, 10)) == {1}


def test_who_does_not_belong_is_refused_and_the_others_meet(address):
  zero, one, *others = meet_all(address, (2, 0), (2, 1), (3, 2), (2, 5), timeout=5)
  assert set(zero) == {1} and set(one) == {0}
  reasons = ' '.join(map(str, others))
  assert all(isinstance(e, ValueError) for e in others)
  assert 'Hosts.num_processes is 2, of this one 3' in reasons or 'was not reached' in reasons


@pytest.mark.parametrize('theirs, count, index, words', [
    ('0', 2, 1, r'it runs specdec_jax .*, this one 0'), (None, 3, 1, 'num_processes is 2, of this one 3'),
    (None, 2, 0, 'process_id is 0 of 2'), (None, 2, 2, 'process_id is 2 of 2'), (None, 2, 'x', 'process_id is x')])
def test_reasons_of_a_refusal(theirs, count, index, words):
  import re
  assert re.search(words, meeting._refusal(theirs or meeting._version(), count, index, 2))
  assert meeting._refusal(meeting._version(), 2, 1, 2) is None


def test_the_same_process_twice_is_refused(address):
  zero, *others = meet_all(address, (3, 0), (3, 1), (3, 1), (3, 2), timeout=5)
  assert set(zero) == {1, 2}
  assert sorted(type(o).__name__ for o in others) in (
      ['SettingError', 'dict', 'dict'], ['HostFailed', 'dict', 'dict'])  # it came before the others met, or after


def test_who_does_not_come_is_named(address):
  zero, one = meet_all(address, (4, 0), (4, 1), timeout=1)
  assert isinstance(zero, HostFailed) and 'Process 2, 3 of 4 did not come to localhost:' in str(zero)
  assert one[0].receive() == ['end', 'process 2, 3 did not come within 1 s']
  with pytest.raises(HostFailed, match=r'Process 0 was not reached at localhost:\d+ within 1 s .*same command'):
    meeting.meet(address, 2, 1, 1)


def test_a_port_in_use_is_named(address):
  named = pytest.raises(SettingError, match=r"coordinator_address is 'localhost:\d+', and port \d+ is in use")
  with socket.create_server(('127.0.0.1', meeting.split(address)[1])), named:
    meeting.meet(address, 2, 0, 1)


def test_addresses():
  assert meeting.split('10.0.0.1:8476') == ('10.0.0.1', 8476)
  assert meeting.split('[::1]:80') == ('::1', 80)
  for bad in ('host', 'host:', ':80', 'host:x', 'host:0', 'host:65536', ''):
    with pytest.raises(SettingError, match='coordinator_address is .*host and a free port'):
      meeting.split(bad)


def test_it_listens_on_this_machine_alone_where_the_address_is_local(address):
  port = meeting.split(address)[1]
  with meeting._server('localhost', port) as server:
    assert server.getsockname()[0] == '127.0.0.1'
  with meeting._server('10.0.0.1', port) as server:
    assert server.getsockname()[0] in ('::', '0.0.0.0')
