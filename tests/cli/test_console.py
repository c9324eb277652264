"""The command `specdec_jax`: what it lists, how it ends, and one run in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from specdec_jax.cli import console
from specdec_jax.runs.registry import RUNS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command(*arguments, cwd):
  """`specdec_jax ARGUMENTS`, installed or not."""
  program = 'from specdec_jax.cli import console; console.run()'
  return subprocess.run([sys.executable, '-c', program, *arguments], cwd=cwd, capture_output=True, text=True,
                        timeout=300, env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': str(ROOT)}, check=False)


@pytest.mark.parametrize('argv', [['specdec_jax'], ['specdec_jax', '--help'], ['specdec_jax', 'help']])
def test_without_a_subcommand_it_lists_them_with_a_line_each(argv, capsys):
  assert console.main(argv) == 0
  lines = capsys.readouterr().out.splitlines()
  for run in RUNS.values():
    named = [line for line in lines if line.startswith(f"  {run.name.replace('_', '-')} ")]
    assert len(named) == 1 and named[0].endswith(run.summary)
  assert any(line.startswith('  import ') for line in lines)
  assert max(map(len, lines)) <= 120


@pytest.mark.parametrize('name', RUNS)
def test_help_of_a_subcommand_is_the_header_of_its_block(name, capsys):
  assert console.main(['specdec_jax', name, '--help']) == 0
  text = capsys.readouterr().out
  assert text.startswith(f"specdec_jax {name.replace('_', '-')}: ") and RUNS[name].summary in text
  assert 'Required to be overridden:' in text and '--gin.NAME=VALUE' in text


@pytest.mark.parametrize('arguments, words', [
    (['decod'], "there is no subcommand 'decod'; did you mean 'decode'?"),
    (['xyz'], "there is no subcommand 'xyz'; it has import, export, inspect, decode, "),
    (['decode', '--gama=4'], 'decode has no setting --gama'),
])
def test_mistakes_end_with_one_line(arguments, words, capsys):
  assert console.main(['specdec_jax', *arguments]) == 1
  error = capsys.readouterr().err
  assert error.startswith('specdec_jax: error: ') and words in error and error.count('\n') == 1


@pytest.mark.parametrize('name, default', [
    ('decode', ' (0 by default)'), ('compare', ' (0 and 1 by default)'), ('plan', '')])
def test_help_tells_the_temperature_that_is_used(name, default, capsys):
  assert console.main(['specdec_jax', name, '--help']) == 0
  assert f'--temperature{default}, --top_k' in capsys.readouterr().out


def test_nothing_heavy_is_imported_for_help():
  program = "import sys\nfrom specdec_jax.cli import console\nconsole.main(['specdec_jax'])\nprint(*sys.modules)"
  done = subprocess.run([sys.executable, '-c', program], cwd=ROOT, capture_output=True, text=True, check=True)
  assert not {'jax', 'gin', 'flax', 'orbax', 'absl'} & set(done.stdout.splitlines()[-1].split())


@pytest.mark.long
def test_a_run(files, tmp_path):
  pair = [f'--target={files}/target', f'--draft={files}/draft', '--gamma=2', '--max_decode_len=8',
          '--gin.main.compilation_cache_dir=None']
  done = command('decode', *pair, '--max_input_len=16', f'--inputs={files}/inputs.jsonl', '--limit=3',
                 '--output_dir=out', cwd=tmp_path)
  assert done.returncode == 0, done.stderr
  lines = [json.loads(line) for line in (tmp_path / 'out' / 'predictions.jsonl').read_text().splitlines()]
  assert [line['id'] for line in lines] == ['a0', 'a1', 'a2'] and os.listdir(tmp_path) == ['out']


@pytest.mark.long
def test_a_text_that_is_streamed_is_the_same(files, tmp_path):
  asked = ['complete', f'--target={files}/target', f'--draft={files}/draft', '--prompt=the file cannot be',
           '--gin.main.compilation_cache_dir=None']
  done, streamed = (command(*asked, *more, cwd=tmp_path) for more in ([], ['--stream']))
  assert streamed.returncode == 0 and streamed.stdout == done.stdout and 'target calls' in done.stdout, streamed.stderr
  assert os.listdir(tmp_path) == []  # nothing is kept without an output directory


def test_t5x_flags_without_a_subcommand(tmp_path):
  done = command('--gin_file=gin/runs/decode.gin', '--gin.decode.gamma=0', cwd=tmp_path)
  assert done.returncode == 1 and 'TARGET is required' in done.stderr and done.stderr.count('\n') == 1


def test_import_is_the_script(tmp_path):
  done = command('import', '--format=t5x', '--input=nothing', '--output=out', cwd=tmp_path)
  assert done.returncode == 1 and done.stderr.count('\n') == 1 and 'does not exist' in done.stderr
  assert done.stderr.startswith('specdec_jax import: error: ')
