"""How a command is stopped before its end: by a signal, or by a thread that finds that it cannot go on.

The main thread gets `Stopped` between two instructions of Python. A device call or a compilation is one instruction:
where it lasts longer than `GRACE` seconds, a thread ends the process, with the same line and exit code.
"""

import contextlib
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator

from specdec_jax.notes import note

GRACE = 10.0  # seconds that a stopped command has to end by itself
_SWALLOWING = {'__del__', '_xla_gc_callback'}  # finalisers, and jax's callback of the garbage collector


class Stopped(BaseException):
  """The command is to end; `str` says why, and how to go on.

  Attributes:
    reason: such as 'stopped by SIGTERM'.
    code: exit code, above 128 where a signal was the reason.
  """

  def __init__(self, reason: str, code: int):
    self.reason, self.code = reason, code
    error = 'error: ' if code < 128 else ''
    super().__init__('; '.join([error + reason, *(hint() for hint in _hints)]))


_on_stop: list[Callable[[str], None]] = []
_on_exit: list[Callable[[], None]] = []
_hints: list[Callable[[], str]] = []
_causes: list[tuple[str, int]] | None = None  # reasons and codes, of which the first counts; while `stoppable` is open
_handled = threading.Lock()  # held where signals are sent, and where their handlers go
_postponed = 0  # how many `postponed` are open
_waiting: Stopped | None = None  # until they are closed


@contextlib.contextmanager
def stoppable(say: Callable[[Stopped], object]) -> Iterator[None]:
  """Raises `Stopped` in the main thread on SIGINT, on SIGTERM and where `stop` is called.

  A second signal ends the process at once.

  Args:
    say: shows what ended the command where the main thread does not get to it.
  """
  global _causes, _waiting
  if threading.current_thread() is not threading.main_thread():
    yield
    return

  def handle(number, frame):
    global _waiting
    if _swallows(frame):  # again a moment later
      threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, number)).start()
      return
    for n in before:
      signal.signal(n, signal.SIG_DFL)
    causes.append(_signalled(number))
    stopped = Stopped(*causes[0])
    if _postponed:
      _waiting = stopped
    else:
      raise stopped

  causes = []
  before = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  ended = threading.Event()
  _causes, _waiting = causes, None
  threading.Thread(target=_watch, args=(reader, causes, ended, say), name='stopping', daemon=True).start()
  try:
    yield
  finally:
    with _handled:
      _causes = _waiting = None
    ended.set()
    signal.set_wakeup_fd(previous)
    os.close(writer)
    for n, handler in before.items():
      signal.signal(n, handler)


def stop(reason: str) -> None:
  """Has the main thread raise `Stopped`; from any thread. Nothing happens where the command is not stoppable."""
  with _handled:
    if _causes is not None and not _causes:
      _causes.append((reason, 1))
      main = threading.main_thread().ident
      assert main is not None  # it has started
      signal.pthread_kill(main, signal.SIGTERM)


@contextlib.contextmanager
def postponed() -> Iterator[None]:
  """In it nothing is raised: a stop waits for its end, though no longer than `GRACE`."""
  global _postponed
  _postponed += 1
  try:
    yield
  finally:
    _postponed -= 1
  if _waiting is not None and not _postponed:
    raise Stopped(_waiting.reason, _waiting.code)  # anew: its hints speak of what was done since


def asked() -> bool:
  """Whether a stop waits for the end of what postpones it."""
  return _waiting is not None


def hint(text: Callable[[], str]) -> contextlib.AbstractContextManager:
  """While it is open, what a stop leaves and how to go on are part of its message."""
  return _listed(_hints, text)


def told(callback: Callable[[str], None]) -> contextlib.AbstractContextManager:
  """While it is open, a signal's reason is given to `callback` at once, in another thread."""
  return _listed(_on_stop, callback)


def before_exit(callback: Callable[[], None]) -> contextlib.AbstractContextManager:
  """While it is open, `callback` is called where a thread ends the process: `finally` is not reached there."""
  return _listed(_on_exit, callback)


@contextlib.contextmanager
def _listed(items: list, item) -> Iterator[None]:
  items.append(item)
  try:
    yield
  finally:
    items.remove(item)


def _swallows(frame: types.FrameType | None) -> bool:
  """Whether what runs is called by the interpreter, which only prints what is raised in it."""
  while frame is not None:
    if frame.f_code.co_name in _SWALLOWING:
      return True
    frame = frame.f_back
  return False


def _signalled(number: int) -> tuple[str, int]:
  name = 'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name
  return f'stopped by {name}', 128 + number


def _watch(reader: int, causes: list[tuple[str, int]], ended: threading.Event, say: Callable[[Stopped], None]) -> None:
  """Ends the process where the main thread does not within `GRACE` seconds after a signal."""
  with os.fdopen(reader, 'rb', buffering=0) as signals:
    while number := signals.read(1):  # empty once the other end is closed
      if number[0] not in (signal.SIGINT, signal.SIGTERM):
        continue
      causes.append(_signalled(number[0]))
      reason, code = causes[0]
      if _postponed:
        note(f'{reason}; what is being worked on has {GRACE:.0f} s to come to its end.')
      for callback in tuple(_on_stop) if code > 128 else ():
        callback(reason)
      if not ended.wait(GRACE):
        for release in tuple(_on_exit):
          with contextlib.suppress(Exception):
            release()
        say(Stopped(reason, code))
        sys.stdout.flush()
        os._exit(code)
