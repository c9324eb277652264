"""The command `specdec_jax`: subcommands, or without one what `python -m specdec_jax.main` is."""

import contextlib
import difflib
import importlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence

from specdec_jax.cli import ends, gin_files, subcommands
from specdec_jax.errors import SettingError
from specdec_jax.runs.registry import RUNS, Run

_PROGRAM = 'specdec_jax'
# Subcommands that are no runs: their module, which defines flags and main(argv), and what they do.
_TOOLS = {'import': ('import_checkpoint', 'Bring in a checkpoint of T5X or Hugging Face as a model directory.'),
          'export': ('export_checkpoint', 'Write a model directory as a checkpoint of T5X or Hugging Face.'),
          'inspect': ('inspect_checkpoint', 'Say what a checkpoint or model directory is; --verify its checksums.')}
_HELP = ('--help', '-h', 'help')


def run() -> None:
  """The entry point; exits."""
  sys.exit(main(sys.argv))


def main(argv: Sequence[str]) -> int:
  """Runs a subcommand, lists them, or takes T5X's flags; returns the exit code."""
  name, rest = (argv[1], list(argv[2:])) if argv[1:] else ('--help', [])
  if name in _HELP:
    print(overview())
    return 0
  if name.startswith('-'):
    return _t5x_habit(argv)
  if name in _TOOLS:
    return _tool(name, rest)
  found: list[str] = []
  code = ends.exit_code(_PROGRAM, lambda: found.extend(_run_arguments(name, rest)))
  if code or not found:
    return code
  run = subcommands.find(name)
  assert run is not None  # else it had no arguments
  with _output_dir(run, rest) as output_dir:
    return _t5x_habit([_PROGRAM, *found, *output_dir])


def overview() -> str:
  """The subcommands, a line each."""
  summaries = {name: summary for name, (_, summary) in _TOOLS.items()} | {
      run.name.replace('_', '-'): run.summary for run in RUNS.values()}
  width = max(map(len, summaries))
  lines = '\n'.join(f'  {name:{width}}  {summary}' for name, summary in summaries.items())
  return (f'Exact speculative decoding for T5 and GPT-2 in JAX.\n\n'
          f'  {_PROGRAM} SUBCOMMAND --NAME=VALUE ...\n'
          f'  {_PROGRAM} decode --target=DIR --draft=DIR --inputs=FILE --output_dir=DIR --gamma=4\n'
          f'  {_PROGRAM} --gin_file=FILE --gin.NAME=VALUE ...    as python -m specdec_jax.main\n\n'
          f'{lines}\n\n{_PROGRAM} SUBCOMMAND --help lists its settings.')


def help_of(run: Run) -> str:
  """The header of a run's block in gin/runs, and how its settings become flags."""
  lines = gin_files.read(f'gin/runs/{run.gin_name}.gin').lines
  header = []
  for line in lines:
    if not line.text.startswith('#'):
      break
    header.append(line.text[1:].rstrip().removeprefix(' '))
  default = {'sampling': ' (0 by default)', 'samplings': ' (0 and 1 by default)'}
  temperature = ''.join(words for block, words in default.items() if block in run.blocks)
  return (f'{_PROGRAM} {run.name.replace("_", "-")}: {run.summary}\n\n' + '\n'.join(header) + '\n\n'
          f'As flags: --output_dir=DIR is OUTPUT_DIR, --gamma=4 is {run.gin_name}.gamma, several are --gammas=4,7.\n'
          f'Also --temperature{temperature}, --top_k, --top_p, --limit (of the inputs), --dtype,\n'
          '--drafter (model, heads, bigram, unigram, lookup, random, none), --task and --task_module (inputs from a\n'
          'seqio task), --reference, --targets and --label (fields of the inputs), where the run has them.\n'
          'Any other setting is --gin.NAME=VALUE; --gin_file=FILE takes the place of the blocks that a\n'
          'subcommand is made of.')


def _run_arguments(name: str, rest: Sequence[str]) -> list[str]:
  """The arguments of `specdec_jax.main` for a run's subcommand; none where its help is printed."""
  run = subcommands.find(name)
  if run is None:
    known = [*_TOOLS, *(run.replace('_', '-') for run in RUNS)]
    near = difflib.get_close_matches(name, known, n=1)
    raise SettingError(f"there is no subcommand '{name}'; "
                       + (f"did you mean '{near[0]}'?" if near else f"it has {', '.join(known)}."))
  if set(rest) & set(_HELP):
    print(help_of(run))
    return []
  if run.on_cpu:
    os.environ.setdefault('JAX_PLATFORMS', 'cpu')  # else jax looks for an accelerator
  return subcommands.translate(run, rest)


@contextlib.contextmanager
def _output_dir(run: Run, rest: Sequence[str]) -> Iterator[list[str]]:
  """The flag that names a directory for a run that prints what it has found, where the user names none."""
  if run.keeps_results or any(flag.startswith(('--output_dir', '--gin_file', '--gin.OUTPUT_DIR')) for flag in rest):
    yield []
    return
  with tempfile.TemporaryDirectory(prefix=f'{_PROGRAM}-') as directory:
    yield [f'--output_dir={directory}']


def _t5x_habit(argv: Sequence[str]) -> int:
  from absl import app

  from specdec_jax.cli import gin_command
  return _exit_code(lambda: app.run(gin_command.main, argv=list(argv), flags_parser=gin_command.parse_flags))


def _tool(name: str, rest: Sequence[str]) -> int:
  from absl import app
  os.environ.setdefault('JAX_PLATFORMS', 'cpu')
  module = importlib.import_module(f'specdec_jax.cli.{_TOOLS[name][0]}')
  return _exit_code(lambda: app.run(module.main, argv=[f'{_PROGRAM} {name}', *rest]))


def _exit_code(call) -> int:
  """absl's `app.run` ends by SystemExit."""
  try:
    call()
  except SystemExit as e:
    if isinstance(e.code, str):
      print(e.code, file=sys.stderr)
    return e.code if isinstance(e.code, int) else int(e.code is not None)
  return 0
