"""The subcommand `inspect`: what a checkpoint or a model directory is and what holds it; no weights are read."""

import json
from collections.abc import Sequence

import tqdm
from absl import app, flags

from specdec_jax.checkpoints import inspect
from specdec_jax.cli import command, ends
from specdec_jax.errors import RunFailed
from specdec_jax.notes import note
from specdec_jax.tpu import fits, planner, tables
from specdec_jax.tpu.chips import CHIPS

_VERIFY = flags.DEFINE_bool('verify', False, 'Compare the checksums of a model directory; all its files are read.')
_PLAN = flags.DEFINE_enum(
    'plan', None, tuple(CHIPS), 'Compile its plain decode for this TPU, on the smallest slice that holds it by size, '
    'and report what that takes.')
_JSON = flags.DEFINE_bool('json', False, 'Print JSON.')


def main(argv: Sequence[str]) -> int:
  """Takes one directory; returns the exit code, 1 where it cannot be loaded or imported as it is."""
  if len(argv) != 2:
    raise app.UsageError('give one directory: specdec_jax inspect DIR [--verify] [--plan=CHIP] [--json]')
  return ends.exit_code(command.name_of(argv), lambda: run(argv[1]))


def run(path: str) -> None:
  with tqdm.tqdm(total=0, unit='B', unit_scale=True, desc='verify', disable=None if _VERIFY.value else True) as bar:
    def progress(done, total):
      bar.total = total
      bar.update(done - bar.n)

    found = inspect.describe(path, _VERIFY.value, progress)
  config, plan = inspect.config_of(found), None
  if config is not None:
    found['fits'] = fits.fits(config)
    chip = _PLAN.value
    topology = found['fits'][0]['slices'][chip] if chip else None
    if chip and topology:
      plan = planner.plan(config, None, chip, topology, tell=note)
      found['plan'] = tables.to_json(plan)
  if _JSON.value:
    print(json.dumps(found, indent=1))
  else:
    print(inspect.text(found), *([fits.text(found['fits'])] if config is not None else []),
          *(['', tables.markdown(plan)] if plan is not None else []), sep='\n')
  if found['problems']:
    raise RunFailed(f"'{path}' has problems, named above.")
