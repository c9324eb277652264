"""Runs what a gin configuration describes, with T5X's flag conventions.

  python -m specdec_jax.main --gin_file=configs/demo/quickstart.gin \\
      --gin.compare.gammas='(4,)' --output_dir=/tmp/quickstart
"""

from specdec_jax.cli import gin_command

if __name__ == '__main__':
  gin_command.run()
