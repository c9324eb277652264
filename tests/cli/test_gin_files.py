"""Gin files: found, put together, and every mistake with its file and line."""

import os

import pytest

from specdec_jax.cli import bindings, gin_config, gin_files
from specdec_jax.errors import ConfigError


def inner_of_files(size=1):
  return size


def outer_of_files(part=None):
  return part


RUN = ["main.output_dir = 'x'", 'main.run = @outer_of_files']


@pytest.fixture(scope='module', autouse=True)
def registered():
  import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
  bindings.register(inner_of_files)
  bindings.register(outer_of_files)


@pytest.fixture
def write(tmp_path, monkeypatch):
  """Writes files into the current directory."""
  monkeypatch.chdir(tmp_path)

  def call(**texts):
    for name, text in texts.items():
      text = text if isinstance(text, bytes) else text.encode()
      (tmp_path / f'{name}.gin').write_bytes(text)

  return call


def lines(source):
  return [(line.place, line.text) for line in source.lines]


def test_includes_are_put_in_where_they_stand(write):
  write(a="A = 1\ninclude 'b.gin'  # more\nB = 2", b="include \"c.gin\"\nC = 3\n", c='\ufeffD = 4')
  source = gin_files.read('a.gin')
  assert lines(source) == [('a.gin, line 1', 'A = 1\n'), ('c.gin, line 1', 'D = 4\n'),
                           ('b.gin, line 2', 'C = 3\n'), ('a.gin, line 3', 'B = 2\n')]
  assert [source.readline() for _ in range(5)] == ['A = 1\n', 'D = 4\n', 'C = 3\n', 'B = 2\n', '']
  assert source.at(2).place == 'c.gin, line 1' and source.at(9).place == 'a.gin, line 3'


def test_the_current_directory_comes_before_the_search_path_and_that_before_the_projects_own(write, tmp_path):
  name = 'gin/sampling/greedy.gin'
  for folder in ('here', 'path'):
    (tmp_path / folder / 'gin' / 'sampling').mkdir(parents=True)
    (tmp_path / folder / name).write_text(f"FOLDER = '{folder}'")
  write()
  read = lambda: gin_files.read(name, [str(tmp_path / 'path')]).lines[-1].text
  assert 'path' in read()
  (tmp_path / 'gin' / 'sampling').mkdir(parents=True)
  (tmp_path / name).write_text('FOLDER = 0')
  assert read() == 'FOLDER = 0\n'
  assert 'Temperature 0' in gin_files.read('gin/sampling/temperature_1.gin').lines[0].text.replace('1', '0')


def test_later_files_override_earlier_ones(write):
  write(a='outer_of_files.part = 1', b='outer_of_files.part = 2')
  gin_config.parse(['a.gin', 'b.gin'], RUN)
  assert gin_config.flat()['outer_of_files.part'] == '2'


@pytest.mark.parametrize('files, words', [
    (dict(a='outer_of_files.prt = 3'), r"'prt' \(in a\.gin, line 1\); it has part"),
    (dict(a="# x\ninclude 'b.gin'\nX = 1", b='A = 1\nouter_of_files.prt = 3'), r'in b\.gin, line 2'),
    (dict(a='outer_of_files.part = @iner_of_files()'), r"in a\.gin, line 1.*did you mean 'inner_of_files'"),
    (dict(a='A = 1\nouter_of_files.part = (1,\n'), r'^a\.gin, line \d: not gin'),
    (dict(a="include 'b.gin'\nX = 1)", b='A = (1,'), r'^[ab]\.gin, line \d: not gin'),  # both are none
    (dict(a='A = 1\nouter_of_files.part = x'), r'^a\.gin, line 2: not gin \(.*a text needs quotes'),
    (dict(a='A = 1\n\nnonsense\n'), r'^a\.gin, line 3: not gin'),
    (dict(a="include 'sub/nothing.gin'"), r"no gin file 'sub/nothing\.gin' \(included by a\.gin, line 1\); looked in"),
    (dict(a="include 'a.gin'"), r'a\.gin includes itself \(included by a\.gin, line 1\)'),
    (dict(a="include 'b.gin'", b="include './a.gin'"), r'a\.gin includes itself \(included by b\.gin, line 1\)'),
    (dict(a='A = 1 # \xe4'.encode('latin-1')), r"'a\.gin' is not UTF-8 \(byte 9\)"),
    (dict(a='A = 1'.encode('utf-16')), r"'a\.gin' is not UTF-8"),
    (dict(a=b'A = \0'), r'^a\.gin, line 1: not gin'),
    (dict(a='import no.such.module'), r"No module named 'no' \(in a\.gin, line 1\)"),
    (dict(a="include 3"), r'^a\.gin, line 1: not gin'),
])
def test_a_mistake_has_its_file_and_line_in_one_line(write, files, words):
  write(**files)
  with pytest.raises(ConfigError, match=words) as caught:
    gin_config.parse(['a.gin'], RUN)
  assert '\n' not in str(caught.value)


@pytest.mark.parametrize('name', [
    'nothing.gin', '/no/such/place.gin', 'https://x/y.gin', '', 'configs', '~nobody/x.gin', '\0'])
def test_a_missing_file_is_named(write, name):
  write()
  with pytest.raises(ConfigError, match='gin file'):
    gin_config.parse([name], RUN)


def test_an_error_of_an_imported_module_keeps_its_traceback(write, tmp_path, monkeypatch):
  write(a='import wrong_module_of_a_user')
  (tmp_path / 'wrong_module_of_a_user.py').write_text('1 / 0')
  monkeypatch.syspath_prepend(str(tmp_path))
  with pytest.raises(ZeroDivisionError):
    gin_config.parse(['a.gin'], RUN)


def test_a_pipe_is_not_waited_for(write, tmp_path):
  write(a="include 'pipe.gin'")
  os.mkfifo(tmp_path / 'pipe.gin')
  for name in ('a.gin', 'pipe.gin'):
    with pytest.raises(ConfigError, match="pipe.gin' is a pipe, not a file"):
      gin_files.read(name)
