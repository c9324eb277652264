"""Times decoders of the same weights side by side: ours, T5X's, transformers', CTranslate2's.

  pip install -e '.[benchmarks]'
  python scripts/benchmark.py --output_dir=output/benchmark --limit=100

decodes greedily in float32, all in one process and in turns: at batch 1 our target alone, the paper's rule with each
--gamma, the draft that 'auto' finds fastest here, and every other program that can be imported (T5X is not on PyPI: its
repository is github.com/google-research/t5x); then a whole job at --batch_size. Prints a table, and writes
benchmark.json, benchmark.md and benchmark.png. Texts must be equal but for ties of the two largest logits; those of
CTranslate2's int8, which rounds the activations too, may differ. docs/performance.md says how a time is taken.

Commonly overridden: --target and --draft (model directories), --gamma, --inputs, --limit, --others, --repeats.
"""

import os

from absl import app, flags

from specdec_jax.benchmarks import bandwidth, programs, report, side_by_side
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.cli import command
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import RunFailed
from specdec_jax.files import writing
from specdec_jax.jobs import choosing, output
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.reports import figures
from specdec_jax.reports.words import model_name
from specdec_jax.sampling import Sampling

TARGET = flags.DEFINE_string('target', 'embedded:ende/target', 'Model directory.')
DRAFT = flags.DEFINE_string('draft', 'embedded:ende/draft', 'Model directory.')
GAMMA = flags.DEFINE_multi_integer('gamma', [4], 'Draft length; repeat the flag for several.', lower_bound=1)
AUTO = flags.DEFINE_bool('auto', True, "Whether to time the draft that tree = 'auto' chooses, too.")
OTHERS = flags.DEFINE_list('others', None, f"Other programs, of {', '.join(programs.NAMES)}; those that are here by "
                           "default, '' for none.")
INPUTS = flags.DEFINE_string('inputs', 'embedded:ende/test.tsv.gz', 'Text, TSV or JSON-lines file of inputs.')
WORDS = flags.DEFINE_integer('words', None, 'Keep the first so many words of each input.', lower_bound=1)
LIMIT = flags.DEFINE_integer('limit', 100, 'Use the first so many inputs at batch 1.', lower_bound=0)
JOB_LIMIT = flags.DEFINE_integer('job_limit', 240, 'Use the first so many inputs in the job; 0 leaves it out.',
                                 lower_bound=0)
BATCH_SIZE = flags.DEFINE_integer('batch_size', 16, 'Of the job.', lower_bound=1)
REPEATS = flags.DEFINE_integer('repeats', 3, 'Timings, of which the median counts.', lower_bound=1)
MAX_INPUT_LEN = flags.DEFINE_integer('max_input_len', 256, 'Longer inputs are refused.', lower_bound=2)
MAX_DECODE_LEN = flags.DEFINE_integer('max_decode_len', 128, 'Most tokens a text may get.', lower_bound=1)
OUTPUT_DIR = flags.DEFINE_string('output_dir', None, 'Directory for the results; printed only by default.')

_PACKAGES = ('jax', 't5x', 'torch', 'transformers', 'ctranslate2')


def run() -> None:
  target, draft = (load_model(flag.value, dtype='float32') for flag in (TARGET, DRAFT))
  drafter = ModelDrafter(draft)
  drafter.check(target)
  length = MAX_DECODE_LEN.value
  others = programs.present(target) if OTHERS.value is None else OTHERS.value
  options = {size: InputOptions(batch_size=size, max_input_len=MAX_INPUT_LEN.value) for size in (1, BATCH_SIZE.value)}
  alone = Method(sampling=Sampling(temperature=0.0), max_decode_len=length)
  speculative = [Method(drafter=drafter, gamma=g, sampling=alone.sampling, max_decode_len=length) for g in GAMMA.value]
  read = lambda limit: options[1].encode(target, read_examples(INPUTS.value, limit=limit, words=WORDS.value))
  found: dict = {
      'target': model_name(target), 'draft': model_name(draft), 'max_decode_len': length, 'repeats': REPEATS.value,
      'inputs': 0, 'job_inputs': 0, 'batch_size': BATCH_SIZE.value, 'one_by_one': [], 'job': [], 'best_reason': '',
      'environment': output.environment(), 'versions': output.versions(_PACKAGES)}
  if LIMIT.value:
    inputs = read(LIMIT.value)
    best = []
    if AUTO.value:
      automatic = Method(drafter=drafter, auto='tree', sampling=alone.sampling, max_decode_len=length)
      choice = choosing.choose(target, automatic, choosing.first_batches(options[1], inputs))
      best = [m for m in [choice.settle(automatic)] if m.name not in {s.name for s in (alone, *speculative)}]
      found['best_reason'] = f"tree = 'auto' chose {choice.name}: {choice.reason}"
    theirs = programs.methods(others, target, length, draft, GAMMA.value[0])
    found |= {'inputs': len(inputs.rows), 'limit': _limit(target), 'one_by_one': side_by_side.by_batch(
        target, inputs, options[1], [alone, *speculative, *best, *theirs], REPEATS.value)}
  if JOB_LIMIT.value:
    inputs = read(JOB_LIMIT.value)
    theirs = [] if target.config.decoder_only else programs.methods(others, target, length)
    found |= {'job_inputs': len(inputs.rows), 'job': side_by_side.by_job(
        target, inputs, options[BATCH_SIZE.value], [alone, *speculative, *theirs], REPEATS.value)}
  text = report.markdown(found)
  print(text)
  if OUTPUT_DIR.value:
    with writing.named(OUTPUT_DIR.value):
      os.makedirs(OUTPUT_DIR.value, exist_ok=True)
    output.write_json(OUTPUT_DIR.value, 'benchmark.json', found)
    output.write(OUTPUT_DIR.value, 'benchmark.md', text)
    figures.save(report.picture(found), f'{OUTPUT_DIR.value}/benchmark.png')
  wrong = [f"{row['decoder']}: example {d['id']} differs at token {d['position']} (margin {d['margin']:.3g})"
           for row in found['one_by_one'] for d in row['not_ties']]
  if wrong:
    raise RunFailed(f"{len(wrong)} texts differ from our target's own where no tie explains it: {'; '.join(wrong[:3])}")


def _limit(target) -> dict:
  """Tokens/s of a decoder that does nothing but read its weights once a token."""
  size = bandwidth.weight_bytes(target)
  speed = bandwidth.bytes_per_second(size, target.config.dtype)
  return {'bytes': size, 'speed': speed, 'tokens_per_second': speed / size}


main = command.main(run)


if __name__ == '__main__':
  app.run(main)
