"""Measures one GPU: T5-XXL alone, its passes over 1 to 64 tokens, c of three drafts, decodes at the paper's alphas.

  pip install -e '.[gpu]'
  python scripts/benchmark_gpu.py --output_dir=output/gpu --seconds=600

Needs no checkpoint: weights are random, and the drafts synthetic (docs/performance.md). Made for
one GPU of 40 GB or more: T5-XXL in bfloat16 takes 23 GB with its largest draft.
`--anywhere --target=t5_1_1_small --drafts=t5_1_1_small --max_decode_len=16` tries it on a CPU.
Prints tables, and writes benchmark_gpu.json, .md and .png.
"""

import benchmark_chip
from absl import app

main = benchmark_chip.main('benchmark_gpu', 'gpu')


if __name__ == '__main__':
  app.run(main)
