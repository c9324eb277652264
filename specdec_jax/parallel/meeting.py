"""How the processes of a job meet: process 0 listens at an address, the others connect to it."""

import contextlib
import errno
import socket
import threading
import time

from specdec_jax.errors import HostFailed, SettingError
from specdec_jax.parallel.link import Connection

_GREETING = 'specdec_jax'
_LOCAL = ('localhost', '127.0.0.1', '::1')


def meet(address: str, count: int, index: int, timeout: float) -> dict[int, Connection]:
  """The connections of this process, by the index of the process at the other end.

  Args:
    address: host:port of process 0.
    count, index: how many processes there are, and which this is.
    timeout: seconds to wait for the others.

  Raises:
    SettingError: the address cannot be used, or another process has other settings or the same index.
    HostFailed: not all came in time.
  """
  host, port = split(address)
  return _listen(host, port, count, timeout) if index == 0 else {0: _connect(host, port, count, index, timeout)}


def split(address: str) -> tuple[str, int]:
  """host:port, or [IPv6]:port, in its parts; SettingError where it is neither."""
  host, _, port = address.rpartition(':')
  if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
    raise SettingError(f"Hosts.coordinator_address is '{address}'; it must be the host and a free port of process 0, "
                       "such as '10.0.0.1:8476'.")
  return host.removeprefix('[').removesuffix(']'), int(port)


def _listen(host: str, port: int, count: int, timeout: float) -> dict[int, Connection]:
  try:
    server = _server(host, port)
  except OSError as e:
    why = 'is in use' if e.errno == errno.EADDRINUSE else f'cannot be opened ({e.strerror or e})'
    raise SettingError(f"Hosts.coordinator_address is '{host}:{port}', and port {port} {why} on this machine, process "
                       '0; name another port to all processes.') from e
  peers, lock, end = {}, threading.Lock(), time.monotonic() + timeout

  def greet(connected):
    connection = Connection(connected)
    try:
      greeting, theirs, their_count, i = connection.receive(most=1000)
      if greeting != _GREETING:
        raise ValueError('a stranger')
      refusal = _refusal(theirs, their_count, i, count)
      with lock:
        if refusal is None and i in peers:
          refusal = f'there are two processes with Hosts.process_id = {i}'
        connection.send(refusal)
        if refusal is None:
          peers[i] = connection
          return
    except (OSError, ValueError, TypeError):
      pass  # someone who has nothing to do with this job, or a process that ended
    connection.close()

  with server:
    while True:
      with lock:
        if len(peers) == count - 1:
          return peers
      if time.monotonic() > end:
        break
      with contextlib.suppress(TimeoutError):
        connected, _ = server.accept()
        threading.Thread(target=greet, args=(connected,), daemon=True).start()
  absent = ', '.join(str(i) for i in range(1, count) if i not in peers)
  for connection in peers.values():
    with contextlib.suppress(OSError):
      connection.send(['end', f'process {absent} did not come within {timeout:.0f} s'])
    connection.close()
  raise HostFailed(f'Process {absent} of {count} did not come to {host}:{port} within {timeout:.0f} s (Hosts.timeout); '
                   'start the same command on every host, and see that they reach this one.')


def _server(host: str, port: int) -> socket.socket:
  """Listens on this machine alone where the address is local, else on all its addresses."""
  if host in _LOCAL:
    family = socket.AF_INET6 if host == '::1' else socket.AF_INET
    server = socket.create_server((host if host == '::1' else '127.0.0.1', port), family=family)
  elif socket.has_dualstack_ipv6():
    server = socket.create_server(('', port), family=socket.AF_INET6, dualstack_ipv6=True)
  else:
    server = socket.create_server(('', port))
  server.settimeout(0.2)
  return server


def _connect(host: str, port: int, count: int, index: int, timeout: float) -> Connection:
  end = time.monotonic() + timeout
  while True:
    connection = None
    try:
      connection = Connection(socket.create_connection((host, port), timeout=5))
      connection.send([_GREETING, _version(), count, index])
      refusal = connection.receive(most=1000)
      break
    except (OSError, ValueError) as e:  # not there yet, or something else listens there
      if connection is not None:
        connection.close()
      if time.monotonic() > end:
        raise HostFailed(f'Process 0 was not reached at {host}:{port} within {timeout:.0f} s (Hosts.timeout): {e}; '
                         'start the same command there too, and see that this host reaches it.') from None
      time.sleep(0.2)
  if refusal is not None:
    connection.close()
    raise SettingError(f'Process 0 refuses this one: {refusal}.')
  return connection


def _refusal(their_version, their_count, their_index, count) -> str | None:
  """Why a process does not belong to this job; None where it does."""
  if their_version != _version():
    return f'it runs specdec_jax {_version()}, this one {their_version}'
  if their_count != count:
    return f'its Hosts.num_processes is {count}, of this one {their_count}'
  if their_index not in range(1, count):
    return f'Hosts.process_id is {their_index} of {count} processes'
  return None


def _version() -> str:
  from specdec_jax import __version__
  return __version__
