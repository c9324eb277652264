"""The command line: flags, mistakes in one line, and a whole run in its own process."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from absl import flags

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_command, gin_config
from specdec_jax.errors import ConfigError

ROOT = pathlib.Path(__file__).parent.parent


def test_gin_flags_are_rewritten():
  assert gin_command.rewrite_gin_flags(
      ['prog', '--gin_file=a.gin', "--gin.TARGET='x=y'", '--gin.decode.gamma=3']) == [
          'prog', '--gin_file=a.gin', "--gin_bindings=TARGET = 'x=y'",
          '--gin_bindings=decode.gamma = 3']
  with pytest.raises(flags.Error, match="'--gin.TARGET' has no value"):
    gin_command.rewrite_gin_flags(['prog', '--gin.TARGET'])


DECODE = 'configs/demo/decode.gin'
OUT = "OUTPUT_DIR = 'unused'"


@pytest.mark.parametrize('files, bindings, words', [
    (['configs/nothing.gin'], [], 'configs/nothing.gin'),
    ([DECODE], [], r'OUTPUT_DIR is required .*--output_dir=DIR'),
    (['gin/runs/decode.gin'], [OUT], 'TARGET is required .*EXAMPLES is required'),
    ([DECODE], [OUT, 'decode.gama = 3'], "doesn't have a parameter named 'gama'.*gamma"),
    ([DECODE], [OUT, 'decod.gamma = 3'], "'decod'; did you mean 'decode'"),
    ([DECODE], [OUT, 'decode.drafter = @ModelDraft()'], "did you mean 'ModelDrafter'"),
    ([DECODE], [OUT, "TARGTE = 'x'"], "not used by this run: TARGTE; .*'TARGET'"),
    ([DECODE], [OUT, 'TARGET = x'], 'TARGET=x: not a gin value; a text needs quotes'),
    ([DECODE], [OUT, 'compare.gammas = (3,)'], r'not used by this run: compare\.gammas'),
    ([DECODE], [OUT, 'greedy/Sampling.temperature = 0.5'],
     r'not used by this run: greedy/Sampling\.temperature'),
    ([DECODE, 'gin/drafters/none.gin'], [OUT], r'not used by this run: .*ModelDrafter\.draft'),
    ([DECODE], [OUT, 'decode.seed = %SEED'], 'SEED is required'),
    ([], ["TARGET = 'x'"], 'main.run is required'),
    ([DECODE], [OUT, 'nonsense'], '--gin_bindings=nonsense: not a binding; write'),
    ([DECODE], [OUT, 'decode.gamma ='], '--gin_bindings=decode.gamma =: not a binding'),
    ([DECODE], [OUT, 'decode.gamma = %A', 'A = %B', 'B = %A'], r'A needs itself \(A -> B -> A\)'),
    ([DECODE], [OUT, 'Sampling.temperature = @Sampling()'], r'Sampling needs itself'),
    ([DECODE], [OUT, 'decode.return_all_decodes = True'], "T5X's return_all_decodes needs no setting here: with"),
    ([DECODE], [OUT, "CHECKPOINT_PATH = 'x'"], "used by this run: CHECKPOINT_PATH; .*T5X's CHECKPOINT_PATH is TARGET"),
    (['gin/runs/decode.gin'], ["INFER_OUTPUT_DIR = 'x'"],
     "OUTPUT_DIR is required .*T5X's INFER_OUTPUT_DIR is OUTPUT_DIR"),
    ([DECODE], [OUT, 'BATCH_SIZE = 8'], 'BATCH_SIZE is decode.batch_size'),
    ([DECODE], [OUT, "TASK_FEATURE_LENGTHS = {'inputs': 8}"], 'is decode.max_input_len'),
    (['t5x/configs/runs/infer.gin'], [], "T5X's own gin files are not read"),
    ([DECODE], [OUT, 'import no.such.module'], r"--gin.import no.such.module=.*No module named"),
])
def test_mistakes_are_one_line(files, bindings, words):
  with pytest.raises(ConfigError, match=words) as caught:
    gin_config.parse(files, bindings)
  assert '\n' not in str(caught.value)


def test_every_configuration_parses():
  """With TARGET, DRAFT and what else it asks for given; and its header says how."""
  paths = sorted((ROOT / 'configs').rglob('*.gin'))
  assert len(paths) >= 5
  for path in paths:
    relative = str(path.relative_to(ROOT))
    try:
      gin_config.parse([relative])
    except ConfigError as e:
      asked = re.findall(r'\b([A-Z_]+) is required', str(e))
      assert asked, e
      gin_config.parse([relative], [f"{name} = 'x'" for name in asked])
    assert f'--gin_file={relative}' in path.read_text()


def run(*args, cwd):
  environment = {**os.environ, 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)}
  return subprocess.run([sys.executable, '-m', 'specdec_jax.main', *args], cwd=cwd, env=environment,
                        capture_output=True, text=True, timeout=300)


def test_a_run_from_another_directory(files, tmp_path):
  pair = [f"--gin.TARGET='{files}/target'", f"--gin.DRAFT='{files}/draft'",
          f"--gin.INPUTS='{files}/inputs.jsonl'"]
  settings = [f'--gin_file={DECODE}', *pair, '--gin.decode.max_decode_len=12',
              f"--gin.main.compilation_cache_dir='{tmp_path}/cache'", '--output_dir=out']
  done = run(*settings, cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  lines = [json.loads(line) for line in (tmp_path / 'out' / 'predictions.jsonl').read_text().splitlines()]
  assert [line['id'] for line in lines] == [f'a{i}' for i in range(12)]
  assert os.listdir(tmp_path / 'cache')
  for name in ('config.gin', 'operative_config.gin', 'environment.json', 'summary.json'):
    assert (tmp_path / 'out' / name).stat().st_size
  environment = json.loads((tmp_path / 'out' / 'environment.json').read_text())
  assert environment['device']['platform'] == 'cpu' and 'jax' in environment['packages']
  assert 'tokens/s' in done.stderr

  refused = run(*settings, '--gin.decode.seed=1', cwd=tmp_path)
  assert refused.returncode == 1
  assert 'decode.seed is not set there and 1 here' in refused.stderr
  assert 'Traceback' not in refused.stderr
