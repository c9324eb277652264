"""How a command ends: 0, or one line on stderr and 1, 130 (Ctrl-C) or 143 (SIGTERM); a fault keeps its traceback."""

import traceback
from collections.abc import Callable

from specdec_jax.errors import UserError
from specdec_jax.notes import note
from specdec_jax.stopping import Stopped, stoppable


def exit_code(name: str, run: Callable[[], object], show_traceback: bool = False,
              memory: Callable[[], str] = lambda: 'lower what sets the size of a device call') -> int:
  """Runs `run()`, and says in one line what ended it early.

  Args:
    name: stands in front of messages.
    run: the command.
    show_traceback: where a mistake of the user's was found, too.
    memory: what would help where there is too little of it, as the end of a sentence.

  Returns:
    The exit code.
  """
  try:
    with stoppable(lambda e: _say(name, str(e), e.code)):
      run()
  except Stopped as e:
    return _say(name, str(e), e.code)
  except UserError as e:
    if show_traceback:
      traceback.print_exc()
    return _say(name, f'error: {one_line(e)}', 1)
  except Exception as e:  # pylint: disable=broad-except
    if show_traceback or not is_out_of_memory(e):
      traceback.print_exc()
      return 1
    reason = str(e).strip().partition('\n')[0][:200]
    return _say(name, f"error: out of memory{f' ({reason})' if reason else ''}; {memory()}.", 1)
  return 0


def is_out_of_memory(error: Exception) -> bool:
  """Whether the device, or the machine, had too little memory."""
  return isinstance(error, MemoryError) or (
      isinstance(error, RuntimeError) and 'RESOURCE_EXHAUSTED' in str(error))


def one_line(error: UserError) -> str:
  """The message of an error without what gin adds of its own calls."""
  text = str(error).split('\n  In call to configurable')[0]
  return ' '.join(text.split()) or type(error).__name__


def _say(name: str, message: str, code: int) -> int:
  note(message, name)
  return code
