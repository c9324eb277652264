"""Brings a T5X or Hugging Face checkpoint into this project's model directory: `specdec_jax import` by its old name.

  python scripts/import_checkpoint.py --format=t5x --input=gs://BUCKET/checkpoint_1000000 \\
      --output=models/my_t5 --vocabulary=spiece.model --dtype=bfloat16

Required: --format, --input, --output. Memory stays bounded whatever the model's
size; see docs/checkpoints.md.
"""

import os
import pathlib
import sys

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # an import needs no accelerator
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # works in a clone, too

from absl import app

from specdec_jax.cli import import_checkpoint

if __name__ == '__main__':
  app.run(import_checkpoint.main)
