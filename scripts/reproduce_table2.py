"""Runs the paper's Table 2, or a part of it, and sets its figures beside ours.

  python scripts/reproduce_table2.py --checkpoints='models/{task}_{size}' --output=output/table2
  python scripts/reproduce_table2.py --demo --output=output/table2_demo

Required: --checkpoints (or --demo, the embedded pair on 100 sentences). Every experiment of
configs/table2 runs in a process of its own; one that is finished is not run again. The baseline is
T5X's own decode where T5X can be imported, as in the paper, and our one-token decoder beside it.
Further --gin.NAME=VALUE flags go to every run. Written: table2.md, table2.csv, table2.png, table2.svg.
"""

import csv
import pathlib

import paper_runs
from absl import app, flags

from specdec_jax.cli import ends
from specdec_jax.errors import RunFailed, SettingError
from specdec_jax.paths import resolve
from specdec_jax.reports import figures, paper, paper_tables, tables
from specdec_jax.reports.measured import Measured

TASKS = {'ende': 'EnDe', 'cnn_dm': 'CNN/DM'}
SIZES = ('small', 'base', 'large')

_CHECKPOINTS = flags.DEFINE_string(
    'checkpoints', None, 'Model directories, with {task} (ende, cnn_dm) and {size} (xxl and drafts).')
_DEMO = flags.DEFINE_bool('demo', False, 'The embedded pair (configs/demo/table2.gin) instead.')
_TASKS = flags.DEFINE_list('tasks', list(TASKS), 'Which tasks, of ende and cnn_dm.')
_DRAFTERS = flags.DEFINE_list('drafters', list(SIZES), 'Which drafts, of small, base and large.')
_TEMPERATURES = flags.DEFINE_list('temperatures', ['0', '1'], 'Which temperatures, of 0 and 1.')
_OUTPUT = flags.DEFINE_string('output', None, 'Directory of the results.', required=True)


def chosen() -> list[tuple[str, paper.Experiment]]:
  """(task, row) of the experiments asked for, in the paper's order; SettingError for others."""
  for flag, known in ((_TASKS, TASKS), (_DRAFTERS, SIZES), (_TEMPERATURES, ('0', '1'))):
    unknown = [value for value in flag.value if value not in known]
    if unknown:
      raise SettingError(f"--{flag.name} has {', '.join(unknown)}; choose of {', '.join(known)}.")
  keys = {words: key for key, words in TASKS.items()}
  return [(keys[row.task], row) for row in paper.TABLE_2
          if keys[row.task] in _TASKS.value and size_of(row) in _DRAFTERS.value
          and f'{row.temperature:g}' in _TEMPERATURES.value]


def size_of(row: paper.Experiment) -> str:
  return row.draft.removeprefix('T5-')


def measure(directory: pathlib.Path, settings) -> tuple[list[Measured], list[str]]:
  """What was measured, and the names of experiments that failed."""
  settings = [*settings, *paper_runs.t5x_settings()]
  if _DEMO.value:
    report = paper_runs.run('configs/demo/table2.gin', directory / 'demo', settings)
    if report is None:
      return [], ['demo']
    return [Measured.of(e, 'draft', 'embedded EnDe') for e in report['experiments']], []
  if not _CHECKPOINTS.value:
    raise SettingError("no --checkpoints, such as --checkpoints='models/{task}_{size}'; --demo runs "
                       'the embedded pair.')
  place = lambda task, size: _CHECKPOINTS.value.format(task=task, size=size)
  measured, failed = [], []
  for task, row in chosen():
    name = f'{task}_{size_of(row)}_t{row.temperature:g}'
    report = paper_runs.run(f'configs/table2/{name}.gin', directory / name, [
        f'--gin.TARGET={place(task, "xxl")!r}', f'--gin.DRAFT={place(task, size_of(row))!r}',
        *settings])
    if report is None:
      failed.append(name)
    else:
      measured += [Measured.of(e, row.draft, row.task, row) for e in report['experiments']]
  return measured, failed


def write(directory: pathlib.Path, measured) -> str:
  """table2.md with Tables 2 and 4, table2.csv and the plot; returns the markdown."""
  forms = paper_tables.table_2(measured), paper_tables.table_4(measured)
  text = (f'Speed-ups [table 2]\n\n{tables.markdown(*forms[0])}\n'
          f'Measured and expected by thm 3.8 [table 4]\n\n{tables.markdown(*forms[1])}')
  (directory / 'table2.md').write_text(text, encoding='utf-8')
  with open(directory / 'table2.csv', 'w', encoding='utf-8', newline='') as f:
    writer = csv.writer(f)
    for header, rows in forms:
      writer.writerows([header, *rows, []])
  drawn = figures.speed_up_over_gamma(measured, paper_runs.compared(measured))
  for kind in ('png', 'svg'):
    figures.save(drawn, str(directory / f'table2.{kind}'))
  return text


def run(settings):
  directory = pathlib.Path(resolve(_OUTPUT.value, '--output'))
  paper_runs.make(directory)
  measured, failed = measure(directory, settings)
  if measured:
    print(write(directory, measured))
  if failed:
    raise RunFailed(f"failed: {', '.join(failed)}; the same command runs them again, the others "
                    f'are kept in {directory}.')


def main(argv) -> int:
  return ends.exit_code('reproduce_table2', lambda: run(argv[1:]))


if __name__ == '__main__':
  app.run(main, flags_parser=paper_runs.parse_flags)
