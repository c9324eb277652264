"""Writes a model directory as a checkpoint of T5X or Hugging Face: `specdec_jax export` as a script.

  python scripts/export_checkpoint.py --format=t5x --input=models/my_t5 --output=exported --step=1000000

Required: --format, --input, --output. Memory stays bounded whatever the model's
size; see docs/checkpoints.md.
"""

import os
import pathlib
import sys

os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # an export needs no accelerator
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # works in a clone, too

from absl import app

from specdec_jax.cli import export_checkpoint

if __name__ == '__main__':
  app.run(export_checkpoint.main)
