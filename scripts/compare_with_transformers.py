"""Times transformers' `generate`, alone and assisted, against this project's: same weights and inputs.

  python scripts/compare_with_transformers.py --target=models/gpt2_xl --draft=models/gpt2 \\
      --words=3 --gamma=4 --limit=40 --max_decode_len=64
  python scripts/compare_with_transformers.py --target=embedded:ende/target \\
      --draft=embedded:ende/draft --gamma=4

Required: --target, --draft, model directories of a T5 or GPT-2 pair. torch and transformers must be
there: pip install -e '.[huggingface]'. All decode greedily in float32 at batch 1, in one process; the
weights are put into transformers' own classes in memory. See docs/benchmarks.md for how a time is taken.
"""

import benchmark_pair
from absl import app

from specdec_jax.benchmarks.transformers_method import TransformersMethod

main = benchmark_pair.main('compare_with_transformers', 'transformers', TransformersMethod, TransformersMethod)


if __name__ == '__main__':
  app.run(main)
