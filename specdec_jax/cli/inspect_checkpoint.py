"""The subcommand `inspect`: what a checkpoint or a model directory is, without reading its weights."""

import json
from collections.abc import Sequence

import tqdm
from absl import app, flags

from specdec_jax.checkpoints import inspect
from specdec_jax.cli import ends
from specdec_jax.errors import RunFailed

_VERIFY = flags.DEFINE_bool('verify', False, 'Compare the checksums of a model directory; all its files are read.')
_JSON = flags.DEFINE_bool('json', False, 'Print JSON.')


def main(argv: Sequence[str]) -> int:
  """Takes one directory; returns the exit code, 1 where it cannot be loaded or imported as it is."""
  if len(argv) != 2:
    raise app.UsageError('give one directory: specdec_jax inspect DIR [--verify] [--json]')
  return ends.exit_code('inspect', lambda: run(argv[1]))


def run(path: str) -> None:
  with tqdm.tqdm(total=0, unit='B', unit_scale=True, desc='verify', disable=None if _VERIFY.value else True) as bar:
    def progress(done, total):
      bar.total = total
      bar.update(done - bar.n)

    found = inspect.describe(path, _VERIFY.value, progress)
  print(json.dumps(found, indent=1) if _JSON.value else inspect.text(found))
  if found['problems']:
    raise RunFailed(f"'{path}' has problems, named above.")
