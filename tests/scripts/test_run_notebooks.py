"""What scripts/run_notebooks.py keeps of a notebook, and names that it does not know."""

import importlib
import pathlib
import sys
import types

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'


@pytest.fixture
def run_notebooks(monkeypatch):
  monkeypatch.syspath_prepend(str(SCRIPTS))
  yield importlib.import_module('run_notebooks')
  del sys.modules['run_notebooks']


def test_stderr_and_times_are_not_saved(run_notebooks):
  kept = [{'output_type': 'stream', 'name': 'stdout', 'text': 'a'}, {'output_type': 'execute_result', 'data': {}}]
  cell = types.SimpleNamespace(cell_type='code', metadata={'execution': {'at': 1}, 'tags': []},
                               outputs=[kept[0], {'output_type': 'stream', 'name': 'stderr', 'text': 'b'}, kept[1]])
  text = types.SimpleNamespace(cell_type='markdown')
  run_notebooks.saved(types.SimpleNamespace(cells=[text, cell]))
  assert cell.outputs == kept and cell.metadata == {'tags': []}


def test_a_name_that_is_no_notebook(run_notebooks, monkeypatch, capsys):
  monkeypatch.setattr(sys, 'argv', ['run_notebooks.py', 'quickstrat'])
  assert run_notebooks.main() == 2
  assert 'no notebook quickstrat; there are check_yourself, quickstart' in capsys.readouterr().err


@pytest.mark.parametrize('arguments', [['--jobs=0'], ['--jobs=2', '--save']])
def test_a_number_of_jobs_that_cannot_be(run_notebooks, monkeypatch, capsys, arguments):
  monkeypatch.setattr(sys, 'argv', ['run_notebooks.py', *arguments])
  assert run_notebooks.main() == 2
  assert 'it must be 1 or more, and 1 with --save' in capsys.readouterr().err


def test_all_run_and_one_that_fails_ends_it(run_notebooks, monkeypatch):
  ran = []

  def run(path, save):
    ran.append(path.stem)
    if path.stem == 'quickstart':
      raise ValueError('a cell failed')

  monkeypatch.setattr(run_notebooks, 'run', run)
  monkeypatch.setattr(sys, 'argv', ['run_notebooks.py', '--jobs=2'])
  with pytest.raises(ValueError, match='a cell failed'):
    run_notebooks.main()
  assert sorted(ran) == sorted(path.stem for path in run_notebooks.FOLDER.glob('*.ipynb'))
  monkeypatch.setattr(sys, 'argv', ['run_notebooks.py', 'trees', 'table_2'])
  ran.clear()
  assert run_notebooks.main() == 0 and ran == ['trees', 'table_2']
