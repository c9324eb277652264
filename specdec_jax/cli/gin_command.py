"""The command that runs what a gin configuration describes, with T5X's flag conventions: see `specdec_jax.main`."""

import logging
import sys
from collections.abc import Sequence

from absl import app, flags

from specdec_jax.cli import ends
from specdec_jax.errors import SettingError

_GIN_FILE = flags.DEFINE_multi_string(
    'gin_file', [], 'A gin file; repeat the flag for several, later ones override.')
_GIN_BINDINGS = flags.DEFINE_multi_string(
    'gin_bindings', [], "A binding, 'name = value'; --gin.NAME=VALUE is short for it.")
_GIN_SEARCH_PATHS = flags.DEFINE_list(
    'gin_search_paths', [], 'Directories, comma-separated, that gin files are looked for in.')
_OUTPUT_DIR = flags.DEFINE_string('output_dir', None, 'Short for --gin.OUTPUT_DIR.')
_TRACEBACK = flags.DEFINE_bool('traceback', False, 'Show where in the code an error arose.')


def rewrite_gin_flags(argv: Sequence[str]) -> list[str]:
  """Turns each --gin.NAME=VALUE into --gin_bindings=NAME = VALUE."""
  rewritten = []
  for arg in argv:
    name, equals, value = arg.partition('=')
    if name.startswith('--gin.'):
      if not equals:
        raise flags.IllegalFlagValueError(f"'{arg}' has no value; write {arg}=VALUE.")
      arg = f'--gin_bindings={name.removeprefix("--gin.")} = {value}'
    rewritten.append(arg)
  return rewritten


def main(argv: Sequence[str]) -> int:
  """Parses the configuration and runs it; returns the exit code."""
  return ends.exit_code('specdec_jax', lambda: _run(argv), _TRACEBACK.value, _memory)


def _memory() -> str:
  from specdec_jax.cli import memory
  return memory.mend()


def _run(argv):
  if argv[1:]:
    raise SettingError(f"unexpected argument '{argv[1]}'; gin files are given as --gin_file=FILE.")
  if not _GIN_FILE.value and not _GIN_BINDINGS.value:
    raise SettingError('no configuration; give --gin_file=FILE, such as '
                       '--gin_file=configs/demo/quickstart.gin.')
  import gin

  import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
  from specdec_jax.cli import gin_config
  logging.getLogger('jax._src.xla_bridge').setLevel(logging.WARNING)  # backends that aren't there
  bindings = list(_GIN_BINDINGS.value)
  if _OUTPUT_DIR.value is not None:
    bindings.append(f'OUTPUT_DIR = {_OUTPUT_DIR.value!r}')
  gin_config.parse(_GIN_FILE.value, bindings, _GIN_SEARCH_PATHS.value)
  gin.get_configurable('main')()


def parse_flags(argv: Sequence[str]) -> list[str]:
  """For `app.run`: absl's own parsing, with --gin.NAME=VALUE."""
  try:
    return flags.FLAGS(rewrite_gin_flags(argv))
  except flags.Error as e:
    sys.exit(f'specdec_jax: error: {e}')


def run() -> None:
  """The command `python -m specdec_jax.main`; exits."""
  app.run(main, flags_parser=parse_flags)
