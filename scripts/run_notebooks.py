"""Runs the notebooks of docs/colab from top to bottom, each in a kernel of its own and an empty folder.

  scripts/notebooks.sh                    all of them
  scripts/notebooks.sh quickstart trees   some
  scripts/notebooks.sh --save quickstart  keeps its new outputs in the file
  scripts/notebooks.sh --jobs=2           two at a time: their timings mean nothing then

A cell that fails ends the run with its error. Needs the extra `notebooks`.
"""

import argparse
import concurrent.futures
import pathlib
import sys
import tempfile
import time

from specdec_jax.files.writing import write_text
from specdec_jax.notes import note

FOLDER = pathlib.Path(__file__).resolve().parents[1] / 'docs' / 'colab'


def saved(notebook):
  """Without what cells wrote to stderr: progress lines, and warnings that are this machine's."""
  for cell in notebook.cells:
    if cell.cell_type == 'code':
      cell.outputs = [output for output in cell.outputs if output.get('name') != 'stderr']
      cell.metadata.pop('execution', None)  # times
  return notebook


def run(path: pathlib.Path, save: bool) -> None:
  import nbclient
  import nbformat
  notebook, start = nbformat.read(path, 4), time.perf_counter()
  with tempfile.TemporaryDirectory() as folder:
    nbclient.NotebookClient(notebook, timeout=3600, kernel_name='python3',
                            resources={'metadata': {'path': folder}}).execute()
  note(f'{path.name}: {time.perf_counter() - start:.0f} s', 'notebooks')
  if save:
    write_text(path, nbformat.writes(saved(notebook)) + '\n')


def main() -> int:
  parser = argparse.ArgumentParser(description='Runs the notebooks of docs/colab.')
  parser.add_argument('--save', action='store_true', help='keep the new outputs in the files')
  parser.add_argument('--jobs', type=int, default=1, help='how many run at a time')
  parser.add_argument('names', nargs='*', help='such as quickstart; all by default')
  arguments = parser.parse_args()
  there = {path.stem: path for path in sorted(FOLDER.glob('*.ipynb'))}
  unknown = [name for name in arguments.names if name not in there]
  if unknown:
    note(f"error: there is no notebook {', '.join(unknown)}; there are {', '.join(there)}.", 'notebooks')
    return 2
  if arguments.jobs < 1 or (arguments.save and arguments.jobs > 1):
    note(f'error: --jobs is {arguments.jobs}; it must be 1 or more, and 1 with --save, which keeps timings.',
         'notebooks')
    return 2
  with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
    for done in [pool.submit(run, there[name], arguments.save) for name in arguments.names or there]:
      done.result()
  return 0


if __name__ == '__main__':
  sys.exit(main())
