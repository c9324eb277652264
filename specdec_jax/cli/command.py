"""What the scripts share: a mistake of the user's is one line on stderr and exit code 1."""

import os
from collections.abc import Callable, Sequence

from absl import app

from specdec_jax.cli import ends


def main(run: Callable[[], object]) -> Callable[[Sequence[str]], int]:
  """For `app.run`: a main that takes no arguments but flags; it ends as `ends.exit_code` says."""
  def main_of_script(argv: Sequence[str]) -> int:
    if argv[1:]:
      raise app.UsageError(f"unexpected argument '{argv[1]}'.")
    return ends.exit_code(name_of(argv), run)

  return main_of_script


def name_of(argv: Sequence[str]) -> str:
  """What a command says that it is: 'specdec_jax import', or a script's name."""
  return os.path.basename(argv[0]).removesuffix('.py')
