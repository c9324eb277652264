"""The flags and inputs of the benchmarks that time another program's decode beside this project's."""

from collections.abc import Callable, Sequence
from typing import Any

from absl import flags

from specdec_jax.benchmarks import side_by_side
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.cli import command
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs.methods import Method
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling

TARGET = flags.DEFINE_string('target', None, 'Model directory, such as embedded:ende/target.', required=True)
DRAFT = flags.DEFINE_string('draft', None, 'Model directory, such as embedded:ende/draft.', required=True)
GAMMA = flags.DEFINE_multi_integer('gamma', [4], 'Draft length; repeat the flag for several.', lower_bound=1)
INPUTS = flags.DEFINE_string('inputs', 'embedded:ende/test.tsv.gz', 'Text, TSV or JSON-lines file of inputs.')
WORDS = flags.DEFINE_integer('words', None, 'Keep the first so many words of each input.', lower_bound=1)
LIMIT = flags.DEFINE_integer('limit', None, 'Use the first so many inputs; all by default.', lower_bound=1)
REPEATS = flags.DEFINE_integer('repeats', 3, 'Timings of each input, of which the median counts.', lower_bound=1)
MAX_INPUT_LEN = flags.DEFINE_integer('max_input_len', 256, 'Longer inputs are refused.', lower_bound=2)
MAX_DECODE_LEN = flags.DEFINE_integer('max_decode_len', 128, 'Most tokens a text may get.', lower_bound=1)


def main(name: str, others: str, alone: Callable, assisted: Callable | None = None) -> Callable[[Sequence[str]], int]:
  """A script's main, for `app.run`: everything greedy, in float32, at batch 1.

  Args:
    name: of the script.
    others: whose decode is beside ours.
    alone: (target, most tokens) -> that decode, called as `jobs.methods.Method`; its texts must be ours.
    assisted: (target, most tokens, draft, gamma) -> the same with a draft, where there is one.
  """
  def decoders(target: Model, draft: Model) -> list:
    common: dict[str, Any] = dict(sampling=Sampling(temperature=0.0), max_decode_len=MAX_DECODE_LEN.value)
    made = [alone(target, MAX_DECODE_LEN.value), Method(**common)]
    for gamma in GAMMA.value:
      made += [assisted(target, MAX_DECODE_LEN.value, draft, gamma)] if assisted else []
      made += [Method(drafter=ModelDrafter(draft), gamma=gamma, **common)]
    return made

  def run():
    target, draft = (load_model(flag.value, dtype='float32') for flag in (TARGET, DRAFT))
    ModelDrafter(draft).check(target)
    examples = read_examples(INPUTS.value, limit=LIMIT.value, words=WORDS.value)
    side_by_side.compare(target, examples, decoders(target, draft), REPEATS.value, MAX_INPUT_LEN.value,
                         MAX_DECODE_LEN.value, others)

  return command.main(name, run)
