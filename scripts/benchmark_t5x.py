"""Times T5X's own greedy decode against this project's: same weights, inputs and process.

  python scripts/benchmark_t5x.py --target=embedded:ende/target --draft=embedded:ende/draft \\
      --gamma=4 --limit=50

Required: --target, --draft. T5X must be importable: pip install -e '.[t5x]'. T5X decodes as in
its infer.py: `EncoderDecoderModel.predict_batch` with `temperature_sample` at temperature 0 over
its minimal network (t5x/examples/t5/network.py). See docs/benchmarks.md for what is measured.
"""

from absl import app, flags

from specdec_jax.benchmarks import side_by_side
from specdec_jax.benchmarks.t5x_method import T5XMethod
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.cli import command
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.measure.methods import Method
from specdec_jax.sampling import Sampling

_TARGET = flags.DEFINE_string('target', None, 'Model directory, such as embedded:ende/target.')
_DRAFT = flags.DEFINE_string('draft', None, 'Model directory, such as embedded:ende/draft.')
_GAMMA = flags.DEFINE_multi_integer(
    'gamma', [4], 'Draft length; repeat the flag for several.', lower_bound=1)
_INPUTS = flags.DEFINE_string(
    'inputs', 'embedded:ende/test.tsv.gz', 'Text, TSV or JSON-lines file of inputs.')
_LIMIT = flags.DEFINE_integer(
    'limit', None, 'Use the first so many inputs; all by default.', lower_bound=1)
_REPEATS = flags.DEFINE_integer(
    'repeats', 3, 'Timings of each input, of which the median counts.', lower_bound=1)
_MAX_INPUT_LEN = flags.DEFINE_integer('max_input_len', 256, 'Longer inputs are refused.')
_MAX_DECODE_LEN = flags.DEFINE_integer(
    'max_decode_len', 128, 'Most tokens a text may get.', lower_bound=1)


def run():
  target = load_model(_TARGET.value, dtype='float32')
  drafter = ModelDrafter(load_model(_DRAFT.value, dtype='float32'))
  drafter.check(target)
  common = dict(sampling=Sampling(temperature=0.0), max_decode_len=_MAX_DECODE_LEN.value)
  methods = [T5XMethod(target, _MAX_DECODE_LEN.value), Method(**common)] + [
      Method(drafter=drafter, gamma=gamma, **common) for gamma in _GAMMA.value]
  side_by_side.compare(
      target, read_examples(_INPUTS.value, limit=_LIMIT.value), methods, _REPEATS.value,
      _MAX_INPUT_LEN.value, _MAX_DECODE_LEN.value, 'T5X')


main = command.main('benchmark_t5x', run)


if __name__ == '__main__':
  flags.mark_flags_as_required(['target', 'draft'])
  app.run(main)
