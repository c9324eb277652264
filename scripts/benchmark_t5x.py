"""Times T5X's own greedy decode against this project's: same weights, inputs and process.

  python scripts/benchmark_t5x.py --target=embedded:ende/target --draft=embedded:ende/draft \\
      --gamma=4 --limit=50

Required: --target, --draft. T5X must be importable: pip install -e '.[t5x]'. T5X decodes as in
its infer.py: `EncoderDecoderModel.predict_batch` with `temperature_sample` at temperature 0 over
its minimal network (t5x/examples/t5/network.py). See docs/benchmarks.md for what is measured.
"""

import benchmark_pair
from absl import app

from specdec_jax.benchmarks.t5x_method import T5XMethod

main = benchmark_pair.main('benchmark_t5x', 'T5X', lambda target, length: T5XMethod(target, length))


if __name__ == '__main__':
  app.run(main)
