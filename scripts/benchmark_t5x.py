"""Times T5X's own greedy decode against this project's: same weights, inputs and process.

  python scripts/benchmark_t5x.py --target=embedded:ende/target --draft=embedded:ende/draft \\
      --gamma=4 --limit=50

Required: --target, --draft. T5X must be importable: pip install -e '.[t5x]'. T5X decodes as in
its infer.py: `EncoderDecoderModel.predict_batch` with `temperature_sample` at temperature 0 over
its minimal network (t5x/examples/t5/network.py). See docs/benchmarks.md for what is measured.
"""

import sys

from absl import app
from absl import flags
import jax

from specdec_jax.analysis.tables import markdown
from specdec_jax.analysis.tables import number
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.runs import agreement
from specdec_jax.runs import batching
from specdec_jax.runs import report
from specdec_jax.runs.methods import Method
from specdec_jax.runs.t5x_method import T5XMethod
from specdec_jax.runs.timing import time_methods
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


def measure(target, inputs, batches, methods, repeats: int) -> tuple[str, list[str]]:
  """Times the methods, the first being what the others are compared with.

  Args:
    target: the `Model`.
    inputs, batches: from `runs.batching`, batch size 1.
    methods: called as `runs.methods.Method`.
    repeats: timings of each input.

  Returns:
    A markdown table, and a line for each text that differs from the first
    method's where the target's two largest logits do not tie.
  """
  timed = time_methods(target, methods, batches, repeats, 'benchmark')
  base = _tokens_per_second(timed[0], batches)
  name = lambda t: t.method.name if t is timed[0] else f'specdec_jax, {t.method.name}'
  rows, wrong = [], []
  for t in timed:
    differences = agreement.differences(target, inputs, batches, timed[0].results, t.results)
    not_ties = agreement.not_ties(differences, target.config.dtype)
    wrong += [f'{name(t)}: example {d.id} differs at token {d.position} (margin '
              f'{d.margin:.3g})' for d in not_ties]
    speed, drafted = _tokens_per_second(t, batches), t.count('drafted', batches)
    emitted, calls = t.count('emitted', batches), t.count('target_calls', batches)
    rows.append([
        name(t), emitted, number(speed, 1), number(speed / base, 2, 'X'),
        number(emitted / calls, 2),
        number(t.count('accepted', batches) / drafted, 3) if drafted else None,
        f'{len(batches) - len(differences)} of {len(batches)}', number(t.warm_up_seconds, 1)])
  header = ['decoder', 'tokens', 'tokens/s', 'against T5X', 'tokens per call', 'acceptance rate',
            'equal texts', 'warm-up, s']
  return markdown(header, rows), wrong


def _tokens_per_second(timed, batches) -> float:
  return timed.count('emitted', batches) / float(timed.seconds.sum())


def run():
  target = load_model(_TARGET.value, dtype='float32')
  drafter = ModelDrafter(load_model(_DRAFT.value, dtype='float32'))
  drafter.check(target)
  common = dict(sampling=Sampling(temperature=0.0), max_decode_len=_MAX_DECODE_LEN.value)
  methods = [T5XMethod(target, _MAX_DECODE_LEN.value), Method(**common)] + [
      Method(drafter=drafter, gamma=gamma, **common) for gamma in _GAMMA.value]
  examples = read_examples(_INPUTS.value, limit=_LIMIT.value)
  inputs = batching.encode(target, examples, _MAX_INPUT_LEN.value)
  batches = batching.batches(inputs, 1, _MAX_INPUT_LEN.value)
  table, wrong = measure(target, inputs, batches, methods, _REPEATS.value)
  device = jax.devices()[0]
  print(f'Target: {report.describe(target)}. {len(examples)} inputs at batch 1, greedy, up to '
        f'{_MAX_DECODE_LEN.value} tokens, medians of {_REPEATS.value}, on {device.device_kind}.\n\n'
        f'{table}')
  if wrong:
    raise ValueError(f"{len(wrong)} texts differ from T5X's where no tie explains it: "
                     + '; '.join(wrong[:3]))


def main(argv) -> int:
  if argv[1:]:
    raise app.UsageError(f"unexpected argument '{argv[1]}'.")
  try:
    run()
  except (ValueError, OSError, ImportError) as e:
    print(f'benchmark_t5x: error: {e}', file=sys.stderr)
    return 1
  return 0


if __name__ == '__main__':
  flags.mark_flags_as_required(['target', 'draft'])
  app.run(main)
