"""scripts/environment.sh with stand-ins for the interpreters."""

import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = '''#!/bin/sh
case "$*" in
  *ensurepip*) exit {venv_missing} ;;
  *version_info*) echo {version} ;;
  *sysconfig*) echo {headers} ;;
  *executable*) echo stand-in ;;
  "-m venv --clear "*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python" ;;
  "-m pip install"*) echo "$*" >> "{folder}/pip.log"; exit {pip_status} ;;
  *) exit 9 ;;
esac
'''


class Machine:
  """A folder with stand-ins for Python in front of everything else on PATH, and a project."""

  def __init__(self, folder):
    self.bin, self.project, self.log = folder / 'bin', folder / 'project', folder / 'pip.log'
    self.bin.mkdir()
    (self.project / 'scripts').mkdir(parents=True)
    for name in ('setup.py', 'pyproject.toml', 'scripts/constraints-3.12.txt'):
      (self.project / name).write_text(name)
    for name in ('python', 'python3', 'python3.11', 'python3.12', 'python3.13', 'c++'):
      self.script(self.bin / name, '#!/bin/sh\nexit 1\n')

  def script(self, path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)

  def python(self, name, version, headers='none', venv_missing=0, pip_status=0):
    self.script(self.bin / name, PYTHON.format(
        version=version, headers=headers, venv_missing=venv_missing, pip_status=pip_status,
        folder=self.project.parent))

  def run(self, command, **variables):
    program = f'set -euo pipefail\nsource "{ROOT}/scripts/environment.sh"\n{command}'
    environ = {'PATH': f'{self.bin}:{os.environ["PATH"]}', 'HOME': str(self.bin.parent)}
    return subprocess.run(['bash', '-c', program], cwd=self.project, capture_output=True,
                          text=True, env={**environ, **variables}, check=False)


@pytest.fixture
def machine(tmp_path):
  return Machine(tmp_path)


def test_the_newest_that_really_runs_is_chosen(machine):
  machine.python('python3.11', '3.11')
  machine.python('python3.12', '3.12')
  assert machine.run('choose_python').stdout == 'python3.12\n'
  machine.python('python3.12', '3.12', venv_missing=1)
  assert machine.run('choose_python').stdout == 'python3.11\n'
  machine.python('python3', '3.12')
  assert machine.run('choose_python').stdout == 'python3\n'
  assert machine.run('choose_python', PYTHON='python3.11').stdout == 'python3.11\n'


def test_one_that_pyenv_keeps_is_found(machine):
  machine.python('../.pyenv/versions/3.12.9/bin/python', '3.12')
  assert machine.run('choose_python').stdout.endswith('/.pyenv/versions/3.12.9/bin/python\n')


def test_3_13_needs_a_compiler(machine, tmp_path):
  machine.python('python3.12', '3.12')
  machine.python('python3.13', '3.13', headers=tmp_path)
  result = machine.run('choose_python')
  assert result.stdout == 'python3.12\n' and 'Passing over python3.13' in result.stderr
  (tmp_path / 'Python.h').touch()
  assert machine.run('choose_python').stdout == 'python3.13\n'


def test_no_python_is_one_line(machine):
  machine.python('python3', '3.10')
  result = machine.run('make_environment test .; echo went on')
  assert result.returncode and not result.stdout
  assert result.stderr.startswith('No Python 3.11 to 3.13') and result.stderr.count('\n') == 1
  result = machine.run('make_environment test .', PYTHON='python3')
  assert result.returncode and result.stderr.startswith('PYTHON=python3 is no Python 3.11')


def test_a_second_run_installs_nothing_and_a_change_installs_again(machine):
  machine.python('python3.12', '3.12')
  make = "make_environment test '.[test]'; echo \"$ENVIRONMENT\""
  first = machine.run(make)
  assert first.returncode == 0, first.stderr
  assert first.stdout.endswith(f'{machine.project}/.venv/test-3.12\n')
  installs = machine.log.read_text().splitlines()
  assert len(installs) == 1
  assert installs[0].endswith('--constraint scripts/constraints-3.12.txt --editable .[test]')
  second = machine.run(make)
  assert second.stdout.splitlines()[-1] == first.stdout.splitlines()[-1]
  assert len(machine.log.read_text().splitlines()) == 1
  (machine.project / 'setup.py').write_text('changed')
  machine.run(make)
  assert len(machine.log.read_text().splitlines()) == 2


def test_a_failed_installation_is_tried_again(machine):
  machine.python('python3.12', '3.12', pip_status=1)
  assert machine.run('make_environment test .; echo went on').stdout.count('went on') == 0
  machine.python('python3.12', '3.12')
  assert machine.run('make_environment test .').returncode == 0
  assert len(machine.log.read_text().splitlines()) == 2
