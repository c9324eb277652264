"""dir() of a package shows its modules, and each is there when it is asked for."""

import importlib
import pathlib
import subprocess
import sys

import pytest

import specdec_jax

PACKAGE = pathlib.Path(specdec_jax.__file__).parent
PACKAGES = sorted('.'.join(p.parent.relative_to(PACKAGE.parent).parts) for p in PACKAGE.rglob('__init__.py'))


@pytest.mark.parametrize('name', PACKAGES)
def test_dir_shows_the_modules_and_the_public_names(name):
  if name.startswith('specdec_jax.integrations.'):  # each needs a program of its own
    pytest.importorskip(f"{name.removeprefix('specdec_jax.integrations.')}.models")
  package = importlib.import_module(name)
  folder = pathlib.Path(package.__file__).parent
  modules = {p.stem for p in folder.glob('*.py')} | {p.parent.name for p in folder.glob('*/__init__.py')}
  shown = {n for n in dir(package) if not n.startswith('__')}
  assert shown == (modules - {'__init__'}) | set(getattr(package, '__all__', ())) and modules


def test_modules_are_imported_when_they_are_asked_for():
  program = '''if True:
    import sys
    import specdec_jax as sd
    assert not {'specdec_jax.errors', 'specdec_jax.analysis', 'jax'} & set(sys.modules)
    assert issubclass(sd.errors.SettingError, ValueError)
    assert sd.analysis.theory is sd.theory
    for package in (sd, sd.analysis, sd.rule):
      for name in ('nothing', '_nothing'):
        try:
          getattr(package, name)
        except AttributeError as e:
          assert str(e) == f"module '{package.__name__}' has no attribute '{name}'", e
        else:
          raise AssertionError(name)
    try:
      from specdec_jax.analysis import nothing
    except ImportError as e:
      assert 'nothing' in str(e)'''
  subprocess.run([sys.executable, '-c', program], check=True, cwd=PACKAGE.parent)
