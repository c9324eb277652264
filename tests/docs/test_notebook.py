"""docs/check_yourself.ipynb: names and arguments exist, outputs are whole, the example by hand holds."""

import importlib.util
import json
import pathlib
import subprocess

import pytest
from cells import imports, unknown

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / 'docs' / 'check_yourself.ipynb'


def code_cells():
  cells = json.loads(NOTEBOOK.read_text(encoding='utf-8'))['cells']
  return [cell for cell in cells if cell['cell_type'] == 'code']


def sources():
  return [''.join(cell['source']) for cell in code_cells()]


def test_what_the_cells_name_exists():
  namespace = imports('\n'.join(sources()))
  assert 'sd' in namespace
  assert not [name for source in sources() for name in unknown(source, namespace)]
  assert unknown('sd.speculative_code(1)', namespace) == ['sd.speculative_code']
  assert unknown('sd.alpha(target, gama=4)', namespace) == ['sd.alpha(gama=)']


def test_every_cell_was_run_in_order_and_none_failed():
  cells = code_cells()
  assert [cell['execution_count'] for cell in cells] == list(range(1, len(cells) + 1))
  outputs = [output for cell in cells for output in cell['outputs']]
  assert not [o for o in outputs if o['output_type'] == 'error' or o.get('name') == 'stderr']
  text = json.dumps(outputs)
  assert 'all equal' in text and '32 of 32' in text and '16 of 16' in text


@pytest.fixture
def not_installed(monkeypatch):
  """The first cell, where Python does not find the project."""
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
  return sources()[0]


def test_a_folder_without_the_project_is_named(not_installed, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path / '..')
  with pytest.raises(FileNotFoundError, match='PROJECT: .* holds no project; see the text above'):
    exec(not_installed, {})


def test_pips_error_is_shown(not_installed, monkeypatch):
  monkeypatch.chdir(NOTEBOOK.parent)
  failed = lambda *args, **kwargs: subprocess.CompletedProcess(args, 1, 'looking', 'no such version')
  monkeypatch.setattr(subprocess, 'run', failed)
  with pytest.raises(RuntimeError, match='pip failed:\nlooking\nno such version'):
    exec(not_installed, {})


def test_the_example_by_hand(capsys):
  cell, = [s for s in sources() if 'sd.verify(' in s]
  namespace = imports('\n'.join(sources()))
  exec(cell, namespace)
  assert 'arithmetic [0.5 0.1]' in capsys.readouterr().out
  broken = cell.replace('num_accepted > 0', 'num_accepted >= 0')
  assert broken != cell
  with pytest.raises(AssertionError):
    exec(broken, namespace)
