"""How a command ends: 0, or one line on stderr and 1, 130 (Ctrl-C) or 143 (SIGTERM); a fault keeps its traceback."""

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator

from specdec_jax.errors import UserError

GRACE = 10.0  # seconds that a stopped command has to end by itself, should a device call hold the main thread


class Stopped(BaseException):
  """A signal asked the command to end; `str` says which."""

  def __init__(self, number: int):
    super().__init__('stopped by ' + ('Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name))
    self.number = number


def exit_code(name: str, run: Callable[[], object], show_traceback: bool = False) -> int:
  """Runs `run()`, and says in one line what ended it early.

  Args:
    name: stands in front of messages.
    run: the command.
    show_traceback: where a mistake of the user's was found, too.

  Returns:
    The exit code.
  """
  try:
    with stoppable(name):
      run()
  except Stopped as e:
    return _say(name, str(e), 128 + e.number)
  except UserError as e:
    if show_traceback:
      traceback.print_exc()
    return _say(name, f'error: {one_line(e)}', 1)
  except Exception as e:  # pylint: disable=broad-except
    if show_traceback or not is_out_of_memory(e):
      traceback.print_exc()
      return 1
    return _say(name, f'error: out of memory ({" ".join(str(e).split())[:200]}); lower what sets the size of a '
                'device call: the batch, gamma and the lengths, or in training tokens_per_batch.', 1)
  return 0


def is_out_of_memory(error: Exception) -> bool:
  """Whether the device, or the machine, had too little memory."""
  return isinstance(error, MemoryError) or (
      isinstance(error, RuntimeError) and 'RESOURCE_EXHAUSTED' in str(error))


def one_line(error: UserError) -> str:
  """The message of an error without what gin adds of its own calls."""
  text = str(error).split('\n  In call to configurable')[0]
  return ' '.join(text.split()) or type(error).__name__


@contextlib.contextmanager
def stoppable(name: str) -> Iterator[None]:
  """Raises `Stopped` in the main thread on SIGINT and SIGTERM.

  Python runs a handler between two of its own instructions, and a device call or a compilation is one of them:
  where it lasts longer than `GRACE` seconds, a thread ends the process with the same line and code.
  """
  if threading.current_thread() is not threading.main_thread():
    yield
    return

  def stop(number, unused_frame):
    for n in before:
      signal.signal(n, signal.SIG_DFL)  # a second one ends the process at once
    raise Stopped(number)

  before = {n: signal.signal(n, stop) for n in (signal.SIGINT, signal.SIGTERM)}
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  ended = threading.Event()
  threading.Thread(target=_watch, args=(name, reader, ended), daemon=True).start()
  try:
    yield
  finally:
    ended.set()
    signal.set_wakeup_fd(previous)
    os.close(writer)
    for n, handler in before.items():
      signal.signal(n, handler)


def _watch(name, reader, ended) -> None:
  """Ends the process where the main thread does not within `GRACE` seconds after a signal."""
  with os.fdopen(reader, 'rb', buffering=0) as signals:
    while number := signals.read(1):  # empty once the other end is closed
      if number[0] in (signal.SIGINT, signal.SIGTERM) and not ended.wait(GRACE):
        os._exit(_say(name, str(Stopped(number[0])), 128 + number[0]))


def _say(name: str, message: str, code: int) -> int:
  print(f'{name}: {message}', file=sys.stderr, flush=True)
  return code
