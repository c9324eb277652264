"""Does a pair fit a TPU, and how fast should it be? `specdec_jax plan` by its old name, which keeps no files.

  python scripts/plan_tpu.py --target=t5_1_1_xxl --draft=t5_1_1_small --chip=v4 --topology=1x1x1 \\
      --gamma=7 --batch=1 --alpha=0.75

Compiles for the TPU on any x86-64 Linux machine. Needs libtpu (pip install libtpu==0.0.52), no TPU. See docs/tpu.md.
"""

import os
import shutil
import tempfile

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # else jax looks for a TPU

from absl import app, flags

from specdec_jax.cli import command
from specdec_jax.runs.plan import plan
from specdec_jax.sampling import Sampling
from specdec_jax.tpu.chips import CHIPS

_TARGET = flags.DEFINE_string('target', 't5_1_1_xxl', 'A name of gin/models or a model directory.')
_DRAFT = flags.DEFINE_string('draft', 't5_1_1_small', "Likewise; '' plans plain decoding.")
_CHIP = flags.DEFINE_enum('chip', 'v4', list(CHIPS), 'The TPU.')
_TOPOLOGY = flags.DEFINE_string('topology', None, "Chips in each direction, such as 2x2x1; one by default.")
_GAMMA = flags.DEFINE_integer('gamma', 7, 'Draft length.', lower_bound=1)
_BATCH = flags.DEFINE_integer('batch', 1, 'Rows of a device call.', lower_bound=1)
_INPUT_LENGTH = flags.DEFINE_integer('input_length', 128, 'Encoder tokens.', lower_bound=1)
_MAX_DECODE_LEN = flags.DEFINE_integer('max_decode_len', 128, 'Most tokens of a text.', lower_bound=1)
_TEMPERATURE = flags.DEFINE_float('temperature', 0.0, '0 is greedy.')
_ALPHA = flags.DEFINE_float('alpha', None, 'For the predicted speed-up.')
_DTYPE = flags.DEFINE_string(
    'dtype', 'bfloat16', "'bfloat16', 'float32' or 'int8' (int8 weights, bfloat16 activations).")
_DRAFT_DTYPE = flags.DEFINE_string('draft_dtype', None, "Of the draft; the target's by default.")
_LAYER_MICROSECONDS = flags.DEFINE_float('layer_microseconds', 15.0, 'Fixed time of a layer in a pass.')
_DATA = flags.DEFINE_integer('data', 1, 'Groups of devices, each with a part of the batch.', lower_bound=1)
_SPLIT_DRAFT = flags.DEFINE_bool('split_draft', False, 'Split the draft over the devices too.')
_PASSES = flags.DEFINE_bool('passes', True, "Compile the passes alone too, for the compiler's count.")
_PROGRAM = flags.DEFINE_string('program', None, 'A file for the compiled text.')


def run():
  with tempfile.TemporaryDirectory() as directory:
    plan(directory, _TARGET.value, _DRAFT.value or None, _CHIP.value, _TOPOLOGY.value, _GAMMA.value, _BATCH.value,
         _INPUT_LENGTH.value, _MAX_DECODE_LEN.value, Sampling(temperature=_TEMPERATURE.value), _ALPHA.value,
         _DTYPE.value, layer_seconds=1e-6 * _LAYER_MICROSECONDS.value, data=_DATA.value,
         split_draft=_SPLIT_DRAFT.value, passes=_PASSES.value, draft_dtype=_DRAFT_DTYPE.value)
    if _PROGRAM.value:
      shutil.copyfile(os.path.join(directory, 'program.txt'), _PROGRAM.value)


main = command.main(run)


if __name__ == '__main__':
  app.run(main)
