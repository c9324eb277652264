"""The subcommand `export`, and scripts/export_checkpoint.py: a model directory to a T5X or Hugging Face checkpoint."""

import tqdm
from absl import flags

from specdec_jax.checkpoints import exporter
from specdec_jax.cli import command
from specdec_jax.cli.checkpoint_flags import DTYPE, FORMAT, INPUT, OUTPUT, required

_STEP = flags.DEFINE_integer('step', 0, "Of training: T5X's checkpoint is OUTPUT/checkpoint_STEP.", lower_bound=0)


def run() -> None:
  checkpoint_format, source, output = (required(flag, 'an export') for flag in (FORMAT, INPUT, OUTPUT))
  with tqdm.tqdm(total=0, unit='B', unit_scale=True, desc='export', disable=None) as bar:
    def progress(done, total):
      bar.total = total
      bar.update(done - bar.n)

    exporter.export_checkpoint(source, output, checkpoint_format, dtype=DTYPE.value, step=_STEP.value,
                               progress=progress)
  print(output)


main = command.main(run)
