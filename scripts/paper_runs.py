"""Runs configurations one after another, each in a process of its own, and reads their reports."""

import importlib.util
import json
import pathlib
import subprocess
import sys

from absl import flags

from specdec_jax.errors import OutputError
from specdec_jax.reports import paper

ROOT = pathlib.Path(__file__).resolve().parents[1]


def finished(directory: pathlib.Path, name: str = 'report.json') -> dict | None:
  """The report of a run that came to its end; a greedy text that differs is no end."""
  try:
    report = json.loads((directory / name).read_text(encoding='utf-8'))
  except (OSError, ValueError):
    return None
  wrong = any(e['outputs'].get('not_ties') for e in report.get('experiments', ()))
  return None if wrong else report


def run(config: str, directory: pathlib.Path, settings=(), name: str = 'report.json') -> dict | None:
  """Runs a configuration into `directory` unless its report stands there already.

  Args:
    config: such as 'configs/table2/ende_small_t0.gin'.
    directory: becomes the run's output_dir.
    settings: more flags, such as '--gin.compare.repeats=3'.
    name: of the report.

  Returns:
    The report; None where the run failed, which it has reported on stderr.

  Raises:
    OutputError: the directory was begun with other settings, or cannot be written.
  """
  flags_file, given = directory.with_name(directory.name + '.flags'), '\n'.join(settings)
  make(directory.parent)
  if flags_file.exists() and flags_file.read_text(encoding='utf-8') != given:
    raise OutputError(f"{directory} was begun with other settings (see {flags_file}); name another "
                      '--output.')
  flags_file.write_text(given, encoding='utf-8')
  report = finished(directory, name)
  if report is not None:
    print(f'{config}: finished before, in {directory}.', file=sys.stderr)
    return report
  print(f'{config} -> {directory}', file=sys.stderr)
  subprocess.run([sys.executable, '-m', 'specdec_jax.main', f'--gin_file={ROOT / config}',
                  f'--output_dir={directory}', *settings], check=False, stdout=sys.stderr)
  return finished(directory, name)


def make(directory: pathlib.Path) -> None:
  """Makes a directory of results; OutputError where that cannot be."""
  try:
    directory.mkdir(parents=True, exist_ok=True)
  except OSError as e:
    raise OutputError(f"--output: '{directory}' cannot be made ({e.strerror}); name another one.") from None


def compared(measured) -> list[paper.Experiment]:
  """The paper's rows to draw beside what has none of its own: T5-XXL with T5-small on EnDe."""
  bare = not any(m.printed for m in measured)
  return [row for row in paper.TABLE_2 if bare and (row.task, row.draft) == ('EnDe', 'T5-small')]


def t5x_settings() -> list[str]:
  """The flag that times T5X's own decode too, where T5X can be imported."""
  if importlib.util.find_spec('t5x') is None:
    return []
  tried = subprocess.run([sys.executable, '-c', 'import t5x.models'], check=False,
                         capture_output=True)
  return [] if tried.returncode else ['--gin.compare.t5x=True']


def parse_flags(argv):
  """For `app.run`: absl's own flags are parsed, --gin.NAME=VALUE is left for the runs."""
  settings = [arg for arg in argv if arg.startswith('--gin.')]
  try:
    rest = flags.FLAGS([arg for arg in argv if arg not in settings])
  except flags.Error as e:
    sys.exit(f'error: {e}')
  if rest[1:]:
    sys.exit(f"error: unexpected argument '{rest[1]}'; only --gin.NAME=VALUE is passed on.")
  return rest + settings
