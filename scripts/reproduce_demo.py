"""Runs Tables 2 to 5 for the embedded English-German pair.

  python scripts/reproduce_demo.py --output=output/demo

Written into --output: results.md with the tables, table2.png, and a folder for each run. Hardware: any;
some ten minutes on two CPU cores. A run that is finished is not run again: name another --output to measure
afresh. Further --gin.NAME=VALUE flags go to every run. With --page=docs/results.md the tables replace those
of that page too, and the plot images/table2.png beside it.
"""

import functools
import pathlib
import re
import shutil

import paper_runs
from absl import app, flags

from specdec_jax.cli import ends
from specdec_jax.errors import RunFailed, SettingError
from specdec_jax.files.reading import read_text
from specdec_jax.paths import resolve
from specdec_jax.reports import figures, paper_tables, tables
from specdec_jax.reports.measured import Measured

_OUTPUT = flags.DEFINE_string('output', 'output/demo', 'Directory of the results.')
_PAGE = flags.DEFINE_string('page', None, 'Page whose tables are replaced between their markers; none by default.')

TITLES = {'pair': 'The pair', 'table2': 'Table 2: speed-up', 'table3': 'Table 3: alpha of other drafters',
          'table4': 'Table 4: expected and measured', 'table5': 'Table 5: alpha with lenience',
          'table5_speed': 'Table 5: speed-up with lenience'}


def measured_tables(directory: pathlib.Path, settings) -> dict[str, str]:
  """Name of a marker -> markdown; RunFailed where a run failed."""
  runs: dict[str, dict] = {}
  for name, report in (('table2', 'report.json'), ('table3', 'alphas.json'),
                       ('table5', 'alphas.json'), ('table5_speed', 'report.json')):
    more = paper_runs.t5x_settings() if name == 'table2' else []
    found = paper_runs.run(f'configs/demo/{name}.gin', directory / name, [*settings, *more], report)
    if found is None:
      raise RunFailed(f'configs/demo/{name}.gin failed; the same command tries it again.')
    runs[name] = found
  measured = [Measured.of(e, 'draft', 'embedded EnDe') for e in runs['table2']['experiments']]
  figures.save(figures.speed_up_over_gamma(measured, paper_runs.compared(measured)),
               str(directory / 'table2.png'))
  made = {'table2': paper_tables.table_2(measured), 'table4': paper_tables.table_4(measured),
          'table3': paper_tables.alphas(runs['table3'], 'T5-XXL (11B)', 'EnDe'),
          'table5': paper_tables.alphas(runs['table5']),
          'table5_speed': paper_tables.lenient_speed_ups(runs['table5_speed'])}
  device = runs['table2']['device']
  where = (f"Target: {runs['table2']['target']}. Drafter: {runs['table2']['drafter']}. "
           f"On {device['count']} x {device['kind']}.\n")
  return {'pair': where, **{name: tables.markdown(*paper_tables.filled(*table))
                            for name, table in made.items()}}


def _between(part: str, found: re.Match) -> str:
  return found[1] + part + found[2]


def replace(page: str, parts: dict[str, str]) -> str:
  """The page with each part between <!-- NAME --> and <!-- end of NAME -->; SettingError for no place."""
  for name, part in parts.items():
    pattern = re.compile(f'(<!-- {name} -->\n).*?(<!-- end of {name} -->)', re.DOTALL)
    if not pattern.search(page):
      raise SettingError(f'the page has no <!-- {name} --> and <!-- end of {name} -->.')
    page = pattern.sub(functools.partial(_between, part), page)
  return page


def run(settings):
  page = None if _PAGE.value is None else pathlib.Path(_PAGE.value)
  old = '' if page is None else read_text(page, 'page')
  directory = pathlib.Path(resolve(_OUTPUT.value, '--output'))
  paper_runs.make(directory)
  parts = measured_tables(directory, settings)
  text = '\n'.join(f'## {title}\n\n{parts[name]}' for name, title in TITLES.items())
  (directory / 'results.md').write_text(text, encoding='utf-8')
  print(f'{text}\nresults.md and table2.png are in {directory}.')
  if page is not None:
    page.write_text(replace(old, parts), encoding='utf-8')
    picture = page.parent / 'images' / 'table2.png'
    picture.parent.mkdir(exist_ok=True)
    shutil.copyfile(directory / 'table2.png', picture)
    print(f'Tables written into {page}, the plot into {picture}.')


def main(argv) -> int:
  return ends.exit_code('reproduce_demo', lambda: run(argv[1:]))


if __name__ == '__main__':
  app.run(main, flags_parser=paper_runs.parse_flags)
