"""The flags and the main of benchmark_gpu.py and benchmark_tpu.py."""

import os
from collections.abc import Callable, Sequence

import jax
from absl import flags

from specdec_jax.benchmarks import chip, chip_report
from specdec_jax.cli import command
from specdec_jax.errors import SettingError
from specdec_jax.files import writing
from specdec_jax.jobs import output
from specdec_jax.reports import figures

TARGET = flags.DEFINE_string('target', 't5_1_1_xxl', "The target's size, by name.")
DRAFTS = flags.DEFINE_list('drafts', ['t5_1_1_small', 't5_1_1_base', 't5_1_1_large'], "The drafts' sizes, by name.")
DTYPE = flags.DEFINE_enum('dtype', 'bfloat16', ['bfloat16', 'float32'], 'Of the weights.')
BATCH = flags.DEFINE_integer('batch', 1, 'Rows of a decode.', lower_bound=1)
INPUT_LENGTH = flags.DEFINE_integer('input_length', 128, 'Tokens of an input.', lower_bound=2)
MAX_DECODE_LEN = flags.DEFINE_integer('max_decode_len', 128, 'Tokens of a text.', lower_bound=2)
WIDTHS = flags.DEFINE_list('widths', ['1', '3', '7', '15', '31', '63'], 'Draft tokens of the passes that are timed.')
NODES = flags.DEFINE_integer('nodes', 63, 'Draft tokens of the trees.', lower_bound=1)
REPEATS = flags.DEFINE_integer('repeats', 3, 'Of the whole decodes.', lower_bound=1)
SECONDS = flags.DEFINE_integer('seconds', 600, 'No measurement begins after so many.', lower_bound=1)
ANYWHERE = flags.DEFINE_bool('anywhere', False, 'Run on whatever is here, to try it at a small size.')
OUTPUT_DIR = flags.DEFINE_string('output_dir', None, 'Directory for the results; printed only by default.')


def main(name: str, platform: str) -> Callable[[Sequence[str]], int]:
  """A script's main, for `app.run`: it measures on a platform of jax's, 'gpu' or 'tpu'."""
  def run():
    here = jax.default_backend()
    if here != platform and not ANYWHERE.value:
      raise SettingError(f'jax runs on {here} here, and this is a benchmark of a {platform}; --anywhere runs it all '
                         'the same, for which --target and --drafts should be small.')
    found = chip.measure(
        TARGET.value, DRAFTS.value, dtype=DTYPE.value, batch=BATCH.value, input_length=INPUT_LENGTH.value,
        max_decode_len=MAX_DECODE_LEN.value, widths=_widths(), nodes=NODES.value, repeats=REPEATS.value,
        seconds=SECONDS.value)
    environment = output.environment()
    text = chip_report.markdown(found, environment)
    print(text)
    if OUTPUT_DIR.value:
      with writing.named(OUTPUT_DIR.value):
        os.makedirs(OUTPUT_DIR.value, exist_ok=True)
      output.write_json(OUTPUT_DIR.value, f'{name}.json', {**found, 'environment': environment})
      output.write(OUTPUT_DIR.value, f'{name}.md', text)
      figures.save(chip_report.picture(found), f'{OUTPUT_DIR.value}/{name}.png')

  return command.main(run)


def _widths() -> list[int]:
  if not all(w.isascii() and w.isdecimal() and int(w) for w in WIDTHS.value):
    raise SettingError(f"--widths is {','.join(WIDTHS.value)}; it must be whole numbers of at least 1, such as 1,7,63.")
  return [int(w) for w in WIDTHS.value]
