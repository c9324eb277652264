"""What the scripts share: bad input is one line on stderr and exit code 1."""

import sys
from collections.abc import Callable

from absl import app


def main(name: str, run: Callable[[], None]) -> Callable[[list[str]], int]:
  """For `app.run`: a main that takes no arguments but flags and says what went wrong in a line."""
  def main_of_script(argv) -> int:
    if argv[1:]:
      raise app.UsageError(f"unexpected argument '{argv[1]}'.")
    try:
      run()
    except (ValueError, OSError, ImportError) as e:
      print(f'{name}: error: {e}', file=sys.stderr)
      return 1
    return 0

  return main_of_script
