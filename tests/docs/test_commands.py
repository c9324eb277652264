"""Every command of the pages and headers: a shell parses it, its names exist, and what runs here runs."""

import json
import os
import re
import shutil
import subprocess
import sys

import documented
import gin
import pytest
from absl import flags
from absl.testing import flagsaver

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_command, gin_config, subcommands
from specdec_jax.errors import ConfigError

ROOT = documented.ROOT
SHELL = documented.shell_blocks()
LANGUAGES = {'bash', 'gin', 'python', 'text'}
ELSEWHERE = {'pip', 'gcloud', 't5x.train', 't5x.infer', 'python3.12', '/tmp/renew/bin/pytest'}  # other programs


def commands(program):
  """(where, arguments) of every `python PROGRAM` or `python -m PROGRAM`."""
  found = []
  for block in SHELL:
    for words in documented.commands(block):
      if words[0] == 'python':
        words = words[2:] if words[1] == '-m' else words[1:]
      if words[0] == program:
        found.append(pytest.param(words[1:], id=block.where))
  return found


def test_code_is_in_fences_that_name_its_language():
  assert not [where for page in documented.PAGES for where in documented.indented_blocks(page)]
  blocks = [block for page in documented.PAGES for block in documented.blocks(page)]
  assert not {block.where: block.language for block in blocks if block.language not in LANGUAGES}


@pytest.mark.parametrize('block', SHELL, ids=lambda block: block.where)
def test_a_shell_parses_it(block):
  done = subprocess.run(['bash', '-n'], input=block.text, capture_output=True, text=True, check=False)
  assert not done.returncode and not done.stderr, f'{block.where}: {done.stderr}'
  assert '...' not in block.text.split(), f'{block.where} is cut short'


def test_a_shell_would_object():
  done = subprocess.run(['bash', '-n'], input='x --gin.a=@Hosts()', capture_output=True, text=True, check=False)
  assert done.returncode


def test_programs_exist():
  seen = set()
  for block in SHELL:
    for words in documented.commands(block):
      program = words[0] if words[0] != 'python' else words[2] if words[1] == '-m' else words[1]
      seen.add(program)
      assert program in ELSEWHERE or program in ('specdec_jax', 'specdec_jax.main') or (ROOT / program).is_file(), (
          f'{block.where}: {program}')
  assert seen >= ELSEWHERE


def parse(arguments):
  """What `python -m specdec_jax.main` does with its arguments before it runs anything."""
  with flagsaver.flagsaver():
    rest = flags.FLAGS(gin_command.rewrite_gin_flags(['main', *arguments]))
    assert rest == ['main'], f'not a flag: {rest[1:]}'
    values = {name: flags.FLAGS[name].value for name in ('gin_file', 'gin_bindings', 'gin_search_paths', 'output_dir')}
  bindings = list(values['gin_bindings'])
  if values['output_dir'] is not None:
    bindings.append(f'OUTPUT_DIR = {values["output_dir"]!r}')
  gin_config.parse(values['gin_file'], bindings, values['gin_search_paths'])


@pytest.fixture
def files_of_pages(tmp_path, monkeypatch):
  """The gin files that a page shows (its first line is their name), in the current directory."""
  for page in documented.PAGES:
    for block in documented.blocks(page):
      name = re.match(r'# (\S+\.gin)\n', block.text)
      if block.language == 'gin' and name:
        (tmp_path / name[1]).write_text(block.text)
  monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize('arguments', commands('specdec_jax.main'))
def test_the_configuration_of_a_run_is_complete(arguments, files_of_pages):
  parse(arguments)


@pytest.mark.parametrize('words', commands('specdec_jax'))
def test_a_subcommand_is_there_and_has_its_settings(words):
  name, *arguments = words
  if '--help' in words:
    assert name == '--help' or subcommands.find(name)
  elif name not in ('import', 'export', 'inspect'):  # no runs: their flags are absl's, tested where they are
    parse(subcommands.translate(subcommands.find(name), arguments))


@pytest.mark.parametrize('setting', ["--gin.GAMMAS='(4,)'", '--gin.decode.gama=4', '--gin.compare.gammas=(4,)'])
def test_a_setting_that_a_run_does_not_have_is_found(setting):
  with pytest.raises(ConfigError):
    parse(['--gin_file=configs/demo/decode.gin', '--output_dir=x', setting])


def test_every_setting_that_is_named_exists():
  """--gin.NAME in prose, comments and messages: a macro of some gin file, or a configurable's parameter."""
  macros = {name for path in documented.CONFIGURATIONS
            for name in re.findall(r'^([A-Z_]+) *=', path.read_text(), re.MULTILINE)} | {'NAME'}
  of_t5x = {name for block in SHELL if '-m t5x.' in block.text for name in re.findall(r'--gin\.([\w.]+)', block.text)}
  found = {}
  for path in (*documented.PAGES, *documented.CONFIGURATIONS, *documented.PROGRAMS, *(ROOT / 'docs').rglob('*.ipynb')):
    for name in re.findall(r'--gin\.([A-Za-z_][\w./]*\w)', path.read_text(encoding='utf-8')):
      found.setdefault(name, str(path.relative_to(ROOT)))
  assert len(found) > 30
  wrong = {}
  for name, where in found.items():
    if name not in macros | of_t5x:
      try:
        assert '.' in name, f'no gin file has a macro {name}'
        gin.parse_config(f'{name} = None')
      except (ValueError, AssertionError) as e:
        wrong[where, name] = str(e)
  assert not wrong


ONLY_FLAGS = '''
import argparse, json, runpy, sys
from absl import app, flags
import specdec_jax.cli

class Parsed(Exception):
  pass

def run(main, argv=None, flags_parser=flags.FLAGS, **_):
  rest = flags_parser(sys.argv)
  assert len(rest) == 1, f'not a flag: {rest[1:]}'
  raise Parsed

def parse_args(parser, *_):
  parse(parser)
  raise Parsed

parse, argparse.ArgumentParser.parse_args, app.run = argparse.ArgumentParser.parse_args, parse_args, run
sys.path.insert(0, 'scripts')
own, defining = set(flags.FLAGS), set()
for sys.argv in json.load(sys.stdin):
  for name in set(flags.FLAGS) - own:
    delattr(flags.FLAGS, name)
  for name in defining:  # their flags are defined as they are imported
    sys.modules.pop(name, None)
    vars(sys.modules.get(name.rpartition('.')[0]) or sys).pop(name.rpartition('.')[2], None)
  try:
    runpy.run_path(sys.argv[0], run_name='__main__')
  except Parsed:
    print('parsed')
  defining = {name for name, of in flags.FLAGS.flags_by_module_dict().items() if {f.name for f in of} - own}
'''


def test_flags_of_scripts_exist():
  """Every script parses the flags that the pages give it, and goes no further."""
  asked = [[word.removeprefix('[').removesuffix(']') for word in words[1:]]  # [--flag=VALUE] in a synopsis
           for block in SHELL for words in documented.commands(block)
           if words[0] == 'python' and words[1].startswith('scripts/')]
  parse = lambda commands: subprocess.run(
      [sys.executable, '-c', ONLY_FLAGS], input=json.dumps(commands), capture_output=True, text=True, cwd=ROOT,
      check=False, env={**os.environ, 'JAX_PLATFORMS': 'cpu'})
  wrong = ['scripts/import_checkpoint.py', '--fromat=t5x']
  done = parse([*asked, wrong])
  assert done.stdout.count('parsed') == len(asked) > 10, done.stderr
  assert done.returncode and 'fromat' in done.stdout + done.stderr, 'the wrong one ends it'


def test_the_jobs_of_the_readme_run(files, tmp_path, monkeypatch):
  """As they stand there, with a tiny pair in the place of the reader's own models."""
  monkeypatch.chdir(tmp_path)
  for name in ('target', 'draft'):
    shutil.copytree(files / name, tmp_path / 'models' / name)
  (tmp_path / 'inputs.txt').write_text('the file cannot be opened\nnew window size\n')
  jobs = [job.values[0] for job in commands('specdec_jax.main')
          if job.id.startswith('README') and "--gin.TARGET='models/target'" in job.values[0]]
  assert jobs
  for arguments in jobs:
    parse([*arguments, '--gin.main.compilation_cache_dir=None'])
    gin.get_configurable('main')()
    directory, = (a.partition('=')[2] for a in arguments if a.startswith('--output_dir='))
    lines = (tmp_path / directory / 'predictions.jsonl').read_text().splitlines()
    assert [json.loads(line)['id'] for line in lines] == [0, 1] and (tmp_path / directory / 'summary.json').exists()
