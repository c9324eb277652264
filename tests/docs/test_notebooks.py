"""docs/colab: names and arguments exist, what is saved is whole, the first cell installs or says why not."""

import importlib.util
import json
import pathlib
import re
import subprocess

import pytest
from cells import imports, unknown

FOLDER = pathlib.Path(__file__).resolve().parents[2] / 'docs' / 'colab'
PATHS = sorted(FOLDER.glob('*.ipynb'))
MOST_BYTES = 300_000


def cells(path, kind='code'):
  return [cell for cell in json.loads(path.read_text(encoding='utf-8'))['cells'] if cell['cell_type'] == kind]


def sources(path, kind='code'):
  return [''.join(cell['source']) for cell in cells(path, kind)]


def find(name):
  return FOLDER / f'{name}.ipynb'


def test_all_are_there():
  assert {path.stem for path in PATHS} == {'quickstart', 'your_checkpoint', 'table_2', 'check_yourself', 'trees'}


@pytest.mark.parametrize('path', PATHS, ids=lambda p: p.stem)
def test_what_the_cells_name_exists(path):
  namespace = imports('\n'.join(sources(path)))
  assert 'sd' in namespace
  for source in sources(path):
    compile(source, path.name, 'exec')
    assert not unknown(source, namespace)


def test_what_does_not_exist_is_found():
  namespace = imports('import specdec_jax as sd')
  assert unknown('sd.speculative_code(1)', namespace) == ['sd.speculative_code']
  assert unknown('sd.alpha(target, gama=4)', namespace) == ['sd.alpha(gama=)']


@pytest.mark.parametrize('path', PATHS, ids=lambda p: p.stem)
def test_every_cell_was_run_in_order_and_none_failed(path):
  found = cells(path)
  assert [cell['execution_count'] for cell in found] == list(range(1, len(found) + 1))
  outputs = [output for cell in found for output in cell['outputs']]
  assert not [o for o in outputs if o['output_type'] == 'error' or o.get('name') == 'stderr']
  assert path.stat().st_size < MOST_BYTES


def test_what_the_saved_check_shows():
  text = json.dumps([cell['outputs'] for cell in cells(find('check_yourself'))])
  assert 'all equal' in text and '32 of 32' in text and '16 of 16' in text


@pytest.mark.parametrize('name', ['quickstart', 'your_checkpoint', 'trees', 'check_yourself'])
def test_a_gain_is_shown(name):
  """Of what no clock decides: tokens per target call, in the saved tables."""
  found = []
  for output in (output for cell in cells(find(name)) for output in cell['outputs']):
    rows = [[part.strip() for part in line.split('|')]
            for line in ''.join(output.get('data', {}).get('text/markdown', '')).splitlines() if line.startswith('|')]
    if rows and 'tokens per target call' in rows[0]:
      found += [float(row[rows[0].index('tokens per target call')]) for row in rows[2:]]
  assert max(found) > 1.5


@pytest.mark.parametrize('path', PATHS, ids=lambda p: p.stem)
def test_no_path_of_a_machine_is_saved(path):
  text = json.dumps([cell['outputs'] for cell in cells(path)])
  assert not re.search(r'(?<![\w.<])/(tmp|root|home|work|usr|content|mnt)/', text)


@pytest.mark.parametrize('path', PATHS, ids=lambda p: p.stem)
def test_links_lead_somewhere(path):
  for text in sources(path, 'markdown'):
    for link in re.findall(r'\]\(([^)\s#]+)', text):
      colab = re.match(r'https://colab\.research\.google\.com/github/OWNER/specdec_jax/blob/main/(\S+)', link)
      place = path.parents[2] / colab[1] if colab else path.parent / link
      assert ('://' in link and not colab) or place.exists(), link
  assert f'docs/colab/{path.name})' in sources(path, 'markdown')[0]  # its badge


INSTALLING = sources(PATHS[0])[0]


def test_the_first_cell_is_the_same_everywhere():
  assert {sources(path)[0] for path in PATHS} == {INSTALLING}


@pytest.fixture
def not_installed(monkeypatch):
  """Where Python does not find the project."""
  monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)


def test_an_address_that_was_not_set_is_named(not_installed):
  with pytest.raises(RuntimeError, match='specdec_jax is not installed here: set REPOSITORY'):
    exec(INSTALLING, {})


@pytest.mark.parametrize('address, installed', [
    ('https://host.example/specdec_jax', 'specdec_jax @ git+https://host.example/specdec_jax'), ('../..', '../..')])
def test_pips_error_is_shown(address, installed, not_installed, monkeypatch):
  commands = []

  def failed(command, **_):
    commands.append(command)
    return subprocess.CompletedProcess(command, 1, 'looking', 'no such version')

  monkeypatch.setattr(subprocess, 'run', failed)
  monkeypatch.setattr('shutil.which', lambda name: None)
  with pytest.raises(RuntimeError, match='pip failed:\nlooking\nno such version'):
    exec(INSTALLING.replace('https://github.com/OWNER/specdec_jax', address), {})
  assert commands[0][-1] == installed


def test_the_example_by_hand(capsys):
  found = sources(find('check_yourself'))
  cell, = [s for s in found if 'sd.verify(' in s]
  namespace = imports('\n'.join(found))
  exec(cell, namespace)
  assert 'arithmetic [0.5 0.1]' in capsys.readouterr().out
  broken = cell.replace('num_accepted > 0', 'num_accepted >= 0')
  assert broken != cell
  with pytest.raises(AssertionError):
    exec(broken, namespace)
