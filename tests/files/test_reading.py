"""Files that a user names: what keeps them from being read is one line with the path."""

import os
import socket

import pytest

from specdec_jax.errors import CheckpointError, InputError, MissingError
from specdec_jax.files import reading


def test_contents_come_back_as_they_are(tmp_path, monkeypatch):
  (tmp_path / 'a b').write_bytes(b'\xef\xbb\xbfgr\xc3\xbcn\r\n')
  monkeypatch.setenv('HOME', str(tmp_path))
  assert reading.read_bytes('~/a b') == b'\xef\xbb\xbfgr\xc3\xbcn\r\n'
  assert reading.read_text(tmp_path / 'a b') == 'grün\r\n'


def test_a_missing_file_is_named(tmp_path):
  with pytest.raises(MissingError, match=r"^There is no table at '.*nothing'\.$"):
    reading.read_bytes(tmp_path / 'nothing', 'table')
  with pytest.raises(FileNotFoundError):
    reading.read_text('nothing')


@pytest.mark.parametrize('name, words', [('', 'is a directory, not a file'), ('file/below', 'Not a directory'),
                                         ('x' * 300, 'File name too long')])
def test_what_is_no_file_is_named(tmp_path, name, words):
  (tmp_path / 'file').write_text('x')
  with pytest.raises(InputError, match=words) as caught:
    reading.read_bytes(f'{tmp_path}/{name}', 'table')
  assert '\n' not in str(caught.value) and f"table '{tmp_path}/{name}".rstrip('/') in str(caught.value)


def test_a_file_that_may_not_be_read_is_named(tmp_path, monkeypatch):
  (tmp_path / 'file').write_text('x')
  if os.geteuid():
    (tmp_path / 'file').chmod(0)
  else:  # root may read all
    from etils import epath
    def refuse(self, mode):
      raise PermissionError(13, 'Permission denied')
    monkeypatch.setattr(type(epath.Path('x')), 'open', refuse)
  with pytest.raises(InputError, match="'.*file' cannot be read: Permission denied"):
    reading.read_bytes(tmp_path / 'file')


def test_text_that_is_not_utf8_is_named(tmp_path):
  (tmp_path / 'file').write_bytes(b'ab\xe4')
  with pytest.raises(InputError, match=r"The page '.*file' is not UTF-8 \(byte 3\)"):
    reading.read_text(tmp_path / 'file', 'page')


@pytest.fixture
def strangers(tmp_path):
  """{what a message calls it: a path that is no regular file}."""
  os.mkfifo(tmp_path / 'pipe')
  listening = socket.socket(socket.AF_UNIX)
  listening.bind(str(tmp_path / 's'))
  listening.close()
  return {'a pipe': tmp_path / 'pipe', 'a socket': tmp_path / 's', 'a device': '/dev/zero', 'a directory': tmp_path}


@pytest.mark.parametrize('most', [None, 100])
def test_nothing_but_files_is_opened(strangers, most):
  for name, path in strangers.items():
    with pytest.raises(InputError, match=f"The table '{path}' is {name}, not a file"):
      reading.read_bytes(path, 'table', most=most)
    with pytest.raises(InputError, match=f"The table '{path}' is {name}, not a file"), reading.opened(path, 'table'):
      pass
    with pytest.raises(CheckpointError, match=name):
      reading.size_of(path, 'table', error=CheckpointError)


def test_with_a_bound_larger_files_are_not_read(tmp_path):
  with (tmp_path / 'file').open('wb') as f:
    f.truncate(2 << 30)
  with pytest.raises(InputError, match=r"The table '.*file' has 2,147,483,648 bytes; .* at most 1,000"):
    reading.read_bytes(tmp_path / 'file', 'table', most=1000)
  assert reading.size_of(tmp_path / 'file') == 2 << 30
  (tmp_path / 'file').write_bytes(b'ab')
  assert reading.read_bytes(tmp_path / 'file', most=2) == b'ab'
