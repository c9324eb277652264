"""Messages among the processes of a job, and which of them is gone: sockets to process 0, from each other one.

A connection that ends without a farewell is a process that was killed; one that stays silent, a machine that is down.
Process 0 passes on what concerns all, so that every process learns the reason within seconds.
"""

import collections
import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from specdec_jax.errors import HostFailed

BEAT = 5.0  # seconds between two signs of life
PATIENCE = 40.0  # seconds of silence after which a process is taken for gone
_HEADER = struct.Struct('>Q')  # how many bytes of JSON follow
_CHUNK = 1 << 20


class Connection:
  """One end of a connection; a message is anything JSON-ready."""

  def __init__(self, connected: socket.socket):
    connected.settimeout(PATIENCE)  # of one step, sending or receiving
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    self._socket, self._sending = connected, threading.Lock()

  def send(self, message: Any) -> None:
    """OSError where the other end is gone."""
    data = json.dumps(message).encode()
    with self._sending:
      self._send(data)

  def show_life(self) -> None:
    """Sends an empty message, unless another one is under way."""
    if self._sending.acquire(blocking=False):
      try:
        self._send(b'')
      finally:
        self._sending.release()

  def receive(self, most: int | None = None) -> Any:
    """The next message that is not empty.

    Args:
      most: bytes that it may have.

    Raises:
      OSError: EOFError's place too, where the other end closed the connection or is silent.
      ValueError: what came is no message.
    """
    size = 0
    while not size:
      size, = _HEADER.unpack(self._receive(_HEADER.size))
    if most is not None and size > most:
      raise ValueError(f'a message of {size} bytes')
    return json.loads(self._receive(size))

  def finish(self) -> None:
    """Says that nothing more will be sent; what was sent still arrives."""
    with contextlib.suppress(OSError):
      self._socket.shutdown(socket.SHUT_WR)

  def close(self) -> None:
    self._socket.close()

  def _send(self, data):
    left = memoryview(_HEADER.pack(len(data)) + data)
    while left:
      left = left[self._socket.send(left[:_CHUNK]):]

  def _receive(self, size: int) -> bytearray:
    data = bytearray(size)
    left = memoryview(data)
    while left:
      received = self._socket.recv_into(left)
      if not received:
        raise ConnectionResetError('closed')
      left = left[received:]
    return data


class Link:
  """This process's connections: of process 0 to all others, of any other to process 0.

  Attributes:
    index: of this process, from 0.
    count: how many there are.
    failure: why the job ends, where another process failed or is gone.
  """

  def __init__(self, index: int, count: int, peers: dict[int, Connection], on_failure: Callable[[str], None]):
    """`on_failure` is called once, in another thread, with the reason."""
    self.index, self.count = index, count
    self.failure: str | None = None
    self._peers, self._on_failure = peers, on_failure
    self._mail = collections.defaultdict(collections.deque)  # of each (name, sender)
    self._news, self._closing = threading.Condition(), threading.Event()
    self._readers = [threading.Thread(target=self._read, args=p, name=f'process {p[0]}', daemon=True)
                     for p in peers.items()]
    for thread in (*self._readers, threading.Thread(target=self._beat, name='signs of life', daemon=True)):
      thread.start()

  def check(self) -> None:
    """HostFailed where another process failed or is gone."""
    if self.failure is not None:
      raise HostFailed(self.failure)

  def send(self, name: str, value: Any) -> None:
    """To process 0, or from it to all."""
    for peer, connection in self._peers.items():
      try:
        connection.send(['value', name, value])
      except OSError as e:
        self._gone(peer, e)
        self.check()

  def hear(self, name: str, sender: int) -> Any:
    """The next value that a process sent under a name; waits for it."""
    with self._news:
      while not self._mail[name, sender]:
        self.check()
        self._news.wait(1.0)
      return self._mail[name, sender].popleft()

  def end(self, reason: str) -> None:
    """Tells all others why the job ends here."""
    self._tell(self._peers.values(), reason)

  def close(self) -> None:
    """Takes leave; waits a little, so that what was sent before arrives."""
    self._closing.set()
    for connection in self._peers.values():
      with contextlib.suppress(OSError):
        connection.send(['farewell'])
      connection.finish()
    end = time.monotonic() + 2
    for thread in self._readers:
      thread.join(max(0.0, end - time.monotonic()))
    for connection in self._peers.values():
      connection.close()

  def _read(self, peer: int, connection: Connection) -> None:
    left = False
    try:
      while True:
        kind, *content = connection.receive()
        if kind == 'value':
          name, value = content
          with self._news:
            self._mail[name, peer].append(value)
            self._news.notify_all()
        elif kind == 'end':
          self._fail(content[0], peer)
        elif kind == 'farewell':
          left = True
    except (OSError, ValueError) as e:
      if not left:
        self._gone(peer, e)

  def _beat(self):
    while not self._closing.wait(BEAT):
      for connection in self._peers.values():
        with contextlib.suppress(OSError):  # which its reader notices too
          connection.show_life()

  def _gone(self, peer: int, error: Exception):
    why = (f'has been silent for {PATIENCE:.0f} s: its machine or the network is down'
           if isinstance(error, TimeoutError) else 'was killed, or its machine or the network went down')
    self._fail(f'process {peer} is gone: it {why}', peer)

  def _fail(self, reason: str, peer: int):
    with self._news:
      if self.failure is not None or self._closing.is_set():
        return
      self.failure = reason
      self._news.notify_all()
    self._tell((c for i, c in self._peers.items() if i != peer), reason)
    self._on_failure(reason)

  def _tell(self, connections: Iterable[Connection], reason: str):
    for connection in connections:
      with contextlib.suppress(OSError):
        connection.send(['end', reason])
