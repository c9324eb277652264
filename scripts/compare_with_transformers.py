"""Times transformers' `generate`, alone and assisted, against this project's: same weights and inputs.

  python scripts/compare_with_transformers.py --target=models/gpt2_xl --draft=models/gpt2 \\
      --words=3 --gamma=4 --limit=40
  python scripts/compare_with_transformers.py --target=embedded:ende/target \\
      --draft=embedded:ende/draft --gamma=4

Required: --target, --draft, model directories of a T5 or GPT-2 pair. torch and transformers must be
there: pip install -e '.[huggingface]'. All decode greedily in float32 at batch 1, in one process; the
weights are put into transformers' own classes in memory. See docs/benchmarks.md for how a time is taken.
"""

from absl import app, flags

from specdec_jax.benchmarks import side_by_side
from specdec_jax.benchmarks.transformers_method import TransformersMethod
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
_WORDS = flags.DEFINE_integer('words', None, 'Keep the first so many words of each input.', lower_bound=1)
_LIMIT = flags.DEFINE_integer(
    'limit', None, 'Use the first so many inputs; all by default.', lower_bound=1)
_REPEATS = flags.DEFINE_integer(
    'repeats', 3, 'Timings of each input, of which the median counts.', lower_bound=1)
_MAX_INPUT_LEN = flags.DEFINE_integer('max_input_len', 256, 'Longer inputs are refused.')
_MAX_DECODE_LEN = flags.DEFINE_integer(
    'max_decode_len', 64, 'Most tokens a text may get.', lower_bound=1)


def run():
  target = load_model(_TARGET.value, dtype='float32')
  draft = load_model(_DRAFT.value, dtype='float32')
  drafter = ModelDrafter(draft)
  drafter.check(target)
  length = _MAX_DECODE_LEN.value
  common = dict(sampling=Sampling(temperature=0.0), max_decode_len=length)
  methods = ([TransformersMethod(target, length), Method(**common)]
             + [m for g in _GAMMA.value for m in (
                 TransformersMethod(target, length, draft, g), Method(drafter=drafter, gamma=g, **common))])
  side_by_side.compare(
      target, read_examples(_INPUTS.value, limit=_LIMIT.value, words=_WORDS.value), methods,
      _REPEATS.value, _MAX_INPUT_LEN.value, length, 'transformers')


main = command.main('compare_with_transformers', run)


if __name__ == '__main__':
  flags.mark_flags_as_required(['target', 'draft'])
  app.run(main)
