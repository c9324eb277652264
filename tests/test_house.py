"""The project as a whole: what importing costs, what a wheel carries, what no file may hold."""

import ast
import json
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
HEAVY = {'tensorflow', 'seqio', 'torch', 'transformers', 'matplotlib'}
CARRIED = ('gin', 'configs')
SHIPPED = ('specdec_jax', *CARRIED, 'setup.py', 'pyproject.toml', 'MANIFEST.in', 'LICENSE',
           'NOTICE', 'README.md')


def modules_after(statement, cwd=ROOT):
  """Top-level modules that a fresh interpreter holds after `statement`."""
  program = f'import json, sys\n{statement}\nprint(json.dumps(sorted(sys.modules)))'
  run = subprocess.run([sys.executable, '-c', program], cwd=cwd, check=True,
                       capture_output=True, text=True)
  return {name.split('.')[0] for name in json.loads(run.stdout.splitlines()[-1])}


def test_importing_the_package_loads_nothing_heavy():
  loaded = modules_after('import specdec_jax')
  assert not loaded & (HEAVY | {'flax', 'orbax', 'optax', 'jax'})


def test_what_the_quickstart_imports_holds_no_tensorflow():
  loaded = modules_after('import specdec_jax.main, specdec_jax.cli.configurables')
  assert 'gin' in loaded and not loaded & HEAVY


def test_gin_is_gin_config():
  modules_after("import gin; assert gin.parse_config and gin.__file__, 'gin is not gin-config'")


def project_files():
  for name in (*SHIPPED, 'scripts', 'tests', 'docs', '.ci'):
    top = ROOT / name
    files = [top] if top.is_file() else top.rglob('*')
    yield from (f for f in files if f.is_file() and '__pycache__' not in f.parts)


def test_no_file_holds_a_path_or_an_index_of_one_machine():
  folders = '|'.join(['root', 'home', 'Users', 'work', 'mnt'])
  words = '|'.join(['extra-index' + '-url', 'find' + '-links', 'file:' + '//', 'python' + 'hosted'])
  machine = re.compile(rf'(?<![\w.~$}}-])/(?:{folders})/\w|{words}')
  assert machine.search('at /' + 'work/main') and machine.search('"/' + 'home/ann/x"')
  found = []
  for path in project_files():
    try:
      text = path.read_text(encoding='utf-8')
    except UnicodeDecodeError:
      continue
    found += [f'{path.relative_to(ROOT)}: {m[0]}' for m in machine.finditer(text)]
  assert not found


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
  """A wheel built without network from a copy of what it is made of."""
  folder = tmp_path_factory.mktemp('wheel')
  source = folder / 'source'
  source.mkdir()
  for name in SHIPPED:
    copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
    copy(ROOT / name, source / name)
  subprocess.run([sys.executable, '-m', 'pip', 'wheel', '--quiet', '--no-index', '--no-deps',
                  '--no-build-isolation', '--wheel-dir', folder, source], check=True)
  return next(folder.glob('*.whl'))


def test_wheel_carries_configurations_inside_the_package(wheel):
  names = set(zipfile.ZipFile(wheel).namelist())
  tops = {name.split('/')[0] for name in names}
  assert {t for t in tops if not t.endswith('.dist-info')} == {'specdec_jax'}
  own = [f.relative_to(ROOT) for folder in CARRIED for f in (ROOT / folder).rglob('*.gin')]
  assert {f.parts[0] for f in own} == set(CARRIED)
  assert {f'specdec_jax/{f.as_posix()}' for f in own} <= names


def test_wheel_carries_the_code_and_what_is_embedded(wheel):
  names = set(zipfile.ZipFile(wheel).namelist())
  package = [f.relative_to(ROOT).as_posix() for f in (ROOT / 'specdec_jax').rglob('*')
             if f.is_file() and '__pycache__' not in f.parts]
  assert 'specdec_jax/embedded/ende/test.tsv.gz' in package
  assert set(package) <= names
  assert {'LICENSE', 'NOTICE'} <= {pathlib.PurePath(n).name for n in names if '.dist-info' in n}


def test_wheel_works_outside_the_repository(wheel, tmp_path):
  zipfile.ZipFile(wheel).extractall(tmp_path)
  program = f'''if True:
    sys.path.insert(0, {str(tmp_path)!r})
    import gin
    from specdec_jax import paths
    assert str(paths.PACKAGE) == {str(tmp_path / 'specdec_jax')!r}
    assert [str(p) for p in paths.gin_search_paths()] == [str(paths.PACKAGE)]
    assert paths.embedded_dir('ende/spiece.model').is_file()
    assert not gin.__file__.startswith({str(tmp_path)!r})'''
  assert 'gin' in modules_after(program, cwd=tmp_path)


def plan():
  """The rooms of docs/development.md's table, from top to bottom."""
  table = (ROOT / 'docs' / 'development.md').read_text(encoding='utf-8').split('## The plan')[1].split('\n## ')[0]
  return re.findall(r'^\| `(\w+)` \|', table, re.MULTILINE)


def imports_of(path):
  """Names of this project that a file imports, wherever in it."""
  for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
    if isinstance(node, ast.Import):
      names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      names = [f'{node.module}.{alias.name}' for alias in node.names]
    else:
      continue
    yield from (name.split('.') for name in names if name.startswith('specdec_jax.'))


def test_imports_go_one_way():
  """A room imports from rooms above it in the plan, so no two import each other."""
  rooms = plan()
  package = ROOT / 'specdec_jax'
  there = {p.stem for p in package.glob('*.py')} | {p.parent.name for p in package.glob('*/__init__.py')}
  assert set(rooms) == there - {'__init__'} and len(rooms) == len(set(rooms))
  wrong = []
  for path in package.rglob('*.py'):
    of = path.relative_to(package).with_suffix('').parts[0]
    if of != '__init__':
      wrong += [f'{path.relative_to(package)} imports {".".join(name)}' for name in imports_of(path)
                if name[1] != '__version__' and rooms.index(name[1]) > rooms.index(of)]
  assert not wrong


CORE = {'models', 'model', 'tree', 'tree_layout', 'sampling', 'standardizer', 'logits_processors', 'rule', 'results',
        'drafters', 'decoding', 'beam'}
AROUND = {'runs', 'cli', 'jobs', 'measure', 'reports', 'benchmarks', 'checkpoints', 'tpu', 'training', 'analysis'}


def test_the_core_knows_nothing_of_what_is_built_around_it():
  """Directly or through another room."""
  package, rooms = ROOT / 'specdec_jax', set(plan())
  imported = {}
  for path in package.rglob('*.py'):
    room = path.relative_to(package).with_suffix('').parts[0]
    imported.setdefault(room, set()).update(name[1] for name in imports_of(path))

  assert CORE | AROUND <= rooms
  found = set(CORE)
  while more := {other for room in found for other in imported.get(room, ())} & rooms - found:
    found |= more
  assert not found & AROUND
