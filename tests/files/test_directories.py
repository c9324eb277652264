"""New directories: whole or not there, and nothing lost that is not their own. Killed writers are killed here."""

import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest

from specdec_jax.errors import OutputError
from specdec_jax.files import directories
from specdec_jax.files.directories import new_directory
from specdec_jax.files.replacing import only

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = only({'a'})
WRITES = '''
import os, signal, sys
from specdec_jax.files import directories
from specdec_jax.files.replacing import only
path, moment = sys.argv[1:]
if moment == 'moved':  # between the two renames
  os.mkdir = lambda path, *rest, mkdir=os.mkdir: (
      os.kill(os.getpid(), signal.SIGKILL) if path == sys.argv[1] else mkdir(path, *rest))
with directories.new_directory(path, only({'a'}) if moment == 'moved' else None) as directory:
  (directory / 'a').write_text('half')
  if moment == 'filling':
    os.kill(os.getpid(), signal.SIGKILL)
  print('writes', flush=True)
  if moment == 'waiting':
    sys.stdin.read()
'''


def start(path, moment: str) -> subprocess.Popen:
  return subprocess.Popen([sys.executable, '-c', WRITES, str(path), moment], cwd=ROOT, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True)


def write(path, text: str = 'new', foreign=None) -> None:
  with new_directory(path, foreign) as directory:
    (directory / 'a').write_text(text)


def tree(folder) -> dict[str, str]:
  """{path of every file and every empty folder below: its text}."""
  return {p.relative_to(folder).as_posix(): p.read_text() if p.is_file() else '/'
          for p in sorted(folder.rglob('*')) if p.is_file() or not any(p.iterdir())}


@pytest.mark.parametrize('name', ['x', '[1]', '*', '?', 'a b', '%20#', "it's", '.hidden', 'ü', '{x}', '$HOME', '-x'])
def test_it_appears_when_it_is_whole_whatever_its_name(tmp_path, name):
  with new_directory(tmp_path / name) as directory:
    (directory / 'a').write_text('new')
    assert not (tmp_path / name).exists()
  assert tree(tmp_path) == {f'{name}/a': 'new'}


def test_parents_are_made_and_links_followed(tmp_path):
  write(tmp_path / 'deep' / 'er' / 'x')
  (tmp_path / 'link').symlink_to(tmp_path / 'deep' / 'er')
  write(tmp_path / 'link' / 'y')
  (tmp_path / 'direct').symlink_to(tmp_path / 'deep' / 'er' / 'x')
  write(tmp_path / 'direct', 'newer', OURS)
  assert (tmp_path / 'direct').is_symlink()
  assert tree(tmp_path / 'deep') == {'er/x/a': 'newer', 'er/y/a': 'new'}


@pytest.mark.parametrize('error', [KeyboardInterrupt, SystemExit, ValueError])
def test_a_failure_leaves_nothing_and_what_stood_there(tmp_path, error):
  write(tmp_path / 'x', 'old')
  for path, foreign in ((tmp_path / 'y', None), (tmp_path / 'x', OURS)):
    with pytest.raises(error), new_directory(path, foreign) as directory:
      (directory / 'a').write_text('half')
      raise error
  assert tree(tmp_path) == {'x/a': 'old'}


def test_what_exists_is_kept_unless_it_is_of_the_kind(tmp_path):
  write(tmp_path / 'x', 'old')
  with pytest.raises(OutputError, match='exists already'):
    write(tmp_path / 'x')
  write(tmp_path / 'x', 'newer', OURS)
  assert tree(tmp_path) == {'x/a': 'newer'}
  (tmp_path / 'x' / 'notes.txt').write_text('mine')
  with pytest.raises(OutputError, match="'.*x' is not overwritten: it holds 'notes.txt'"):
    write(tmp_path / 'x', 'newest', OURS)
  assert tree(tmp_path) == {'x/a': 'newer', 'x/notes.txt': 'mine'}


def test_an_empty_directory_may_be_replaced_but_no_file_and_no_dangling_link(tmp_path):
  (tmp_path / 'x').mkdir()
  with pytest.raises(OutputError, match='exists already'):
    write(tmp_path / 'x')
  write(tmp_path / 'x', 'new', OURS)
  (tmp_path / 'f').write_text('mine')
  for foreign, words in ((None, 'exists already'), (OURS, 'it is a file')):
    with pytest.raises(OutputError, match=words):
      write(tmp_path / 'f', 'new', foreign)
  assert tree(tmp_path) == {'x/a': 'new', 'f': 'mine'}


@pytest.mark.parametrize('foreign', [None, OURS])
@pytest.mark.parametrize('appears', ['directory', 'empty', 'file'])
def test_what_appears_meanwhile_is_kept(tmp_path, foreign, appears):
  if foreign and appears == 'empty':
    return  # as good as nothing
  words = 'has appeared while|is not overwritten'
  with pytest.raises(OutputError, match=words), new_directory(tmp_path / 'x', foreign) as directory:
    (directory / 'a').write_text('new')
    if appears == 'file':
      (tmp_path / 'x').write_text('theirs')
    else:
      (tmp_path / 'x').mkdir()
      if appears == 'directory':
        (tmp_path / 'x' / 'b').write_text('theirs')
  assert tree(tmp_path) == {'directory': {'x/b': 'theirs'}, 'empty': {'x': '/'}, 'file': {'x': 'theirs'}}[appears]


def test_what_is_replaced_meanwhile_by_something_else_is_kept(tmp_path):
  write(tmp_path / 'x', 'old')
  words = "'.*x' is not overwritten: it holds 'b'"
  with pytest.raises(OutputError, match=words), new_directory(tmp_path / 'x', OURS) as directory:
    (directory / 'a').write_text('new')
    shutil.rmtree(tmp_path / 'x')
    (tmp_path / 'x').mkdir()
    (tmp_path / 'x' / 'b').write_text('theirs')
  assert tree(tmp_path) == {'x/b': 'theirs'}


def test_what_appears_between_the_two_renames_is_kept_and_the_old_one_named(tmp_path, monkeypatch, capsys):
  write(tmp_path / 'x', 'old')
  mkdir, target = os.mkdir, str(tmp_path / 'x')

  def late(path, *rest):
    if path == target:
      mkdir(path)
      (tmp_path / 'x' / 'b').write_text('theirs')
    mkdir(path, *rest)

  monkeypatch.setattr(os, 'mkdir', late)
  with pytest.raises(OutputError, match='has appeared while'):
    write(tmp_path / 'x', 'new', OURS)
  assert tree(tmp_path) == {'x/b': 'theirs', '.x.partial/old/a': 'old'}
  assert f"is now at '{tmp_path}/.x.partial/old'" in capsys.readouterr().err


def test_the_old_one_comes_back_where_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
  write(tmp_path / 'x', 'old')
  rename = os.rename

  def refuse(source, target):
    if str(source).endswith('/new'):
      raise PermissionError(13, 'Permission denied')
    rename(source, target)

  monkeypatch.setattr(os, 'rename', refuse)
  with pytest.raises(OutputError, match="x' cannot be written .Permission denied"):
    write(tmp_path / 'x', 'new', OURS)
  assert tree(tmp_path) == {'x/a': 'old'}


def test_of_two_at_once_one_is_refused(tmp_path):
  first = start(tmp_path / 'x', 'waiting')
  assert first.stdout.readline() == 'writes\n'
  with pytest.raises(OutputError, match=rf"'{tmp_path}/x' is in use by process {first.pid} .*name another one"):
    write(tmp_path / 'x')
  with new_directory(tmp_path / 'other'):  # by name, not by folder
    pass
  first.communicate()
  assert first.returncode == 0 and tree(tmp_path) == {'x/a': 'half', 'other': '/'}


def test_of_two_in_one_process_too(tmp_path):
  with new_directory(tmp_path / 'x') as directory:
    (directory / 'a').write_text('first')
    with pytest.raises(OutputError, match=f'in use by process {os.getpid()}'):
      write(tmp_path / 'x')
  assert tree(tmp_path) == {'x/a': 'first'}


def test_what_a_killed_process_left_is_removed(tmp_path, capsys):
  killed = start(tmp_path / 'x', 'filling')
  assert killed.wait() == -signal.SIGKILL
  assert (tmp_path / '.x.partial' / 'new' / 'a').exists()
  write(tmp_path / 'x')
  assert tree(tmp_path) == {'x/a': 'new'}
  assert f'in use by process {killed.pid}' in capsys.readouterr().err


def test_what_a_killed_process_moved_away_comes_back(tmp_path):
  write(tmp_path / 'x', 'old')
  assert start(tmp_path / 'x', 'moved').wait() == -signal.SIGKILL
  assert not (tmp_path / 'x').exists()
  with pytest.raises(OutputError, match='exists already'):
    write(tmp_path / 'x')
  assert tree(tmp_path) == {'x/a': 'old'}
  assert start(tmp_path / 'x', 'moved').wait() == -signal.SIGKILL
  write(tmp_path / 'x', 'newer', OURS)
  assert tree(tmp_path) == {'x/a': 'newer'}


@pytest.mark.parametrize('left', ['new/a', 'old/a', 'mine'])
def test_a_folder_that_no_writer_left_is_not_touched(tmp_path, left):
  file = tmp_path / '.x.partial' / left
  file.parent.mkdir(parents=True)
  file.write_text('mine')
  with pytest.raises(OutputError, match=r"\.x\.partial', where .* holds what this program did not leave"):
    write(tmp_path / 'x')
  assert tree(tmp_path) == {f'.x.partial/{left}': 'mine'}


def test_places_that_cannot_be_written_are_one_line(tmp_path):
  (tmp_path / 'file').write_text('')
  for path in (tmp_path / 'file' / 'x', tmp_path / ('n' * 250), pathlib.Path('/proc/x')):
    with pytest.raises(OutputError, match='cannot be written') as caught:
      write(path)
    assert '\n' not in str(caught.value)


@pytest.fixture
def remote(monkeypatch):
  """Local paths are taken for addresses."""
  monkeypatch.setattr(directories, 'is_remote', lambda path: True)


@pytest.mark.usefixtures('remote')
def test_remote_directories_are_filled_in_place(tmp_path):
  with new_directory(tmp_path / 'x') as directory:
    (directory / 'a').write_text('first')
    with pytest.raises(OutputError, match=f"x' is being written by process {os.getpid()} .*remove the directory"):
      write(tmp_path / 'x')
  assert tree(tmp_path) == {'x/a': 'first'}
  with pytest.raises(OutputError, match='exists already'):
    write(tmp_path / 'x')
  write(tmp_path / 'x', 'second', OURS)
  with pytest.raises(KeyError), new_directory(tmp_path / 'y') as directory:
    (directory / 'a').write_text('half')
    raise KeyError
  assert tree(tmp_path) == {'x/a': 'second'}


@pytest.mark.usefixtures('remote')
def test_of_two_remote_writers_the_one_whose_mark_is_gone_fails_and_deletes_nothing(tmp_path):
  for body in ('ends', 'fails'):
    words = 'taken over|lost'
    with pytest.raises((OutputError, KeyError), match=words), new_directory(tmp_path / body) as directory:
      (directory / 'a').write_text('theirs')
      (directory / '.writing.json').write_text('{}')
      if body == 'fails':
        raise KeyError('lost')
    assert (tmp_path / body / 'a').read_text() == 'theirs'
