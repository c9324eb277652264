import errno
import os

import pytest

from specdec_jax.errors import OutputError
from specdec_jax.files import writing


def test_a_file_appears_whole_and_replaces_another(tmp_path):
  path = tmp_path / 'a.txt'
  writing.write_text(path, 'one')
  with writing.whole_file(path) as f:
    f.write(b'two')
    assert path.read_text() == 'one'
  assert path.read_text() == 'two' and os.listdir(tmp_path) == ['a.txt']


def test_what_fails_leaves_what_stood_there(tmp_path):
  path = tmp_path / 'a.txt'
  writing.write_text(path, 'one')
  with pytest.raises(KeyError), writing.whole_file(path) as f:
    f.write(b'tw')
    raise KeyError
  assert path.read_text() == 'one' and os.listdir(tmp_path) == ['a.txt']


def test_half_a_surrogate_pair_is_escaped(tmp_path):
  writing.write_text(tmp_path / 'a', 'ä \udcff')
  assert (tmp_path / 'a').read_bytes() == 'ä '.encode() + b'\\udcff'


@pytest.mark.parametrize('number, mend', [
    (errno.ENOSPC, 'No space left on device; make room there'), (errno.EROFS, 'mounted for reading only'),
    (errno.EIO, r'Input/output error\)')])
def test_the_disk_s_faults_name_the_path(tmp_path, monkeypatch, number, mend):
  def fails(unused):
    raise OSError(number, os.strerror(number))

  monkeypatch.setattr(writing.os, 'fsync', fails)
  with pytest.raises(OutputError, match=rf"{tmp_path}/a' cannot be written \(.*{mend}"):
    writing.write_text(tmp_path / 'a', 'text')
  assert not os.listdir(tmp_path)


def test_a_full_disk():
  refused = pytest.raises(OutputError, match="'/dev/full' cannot be written .*make room")
  with refused, writing.named('/dev/full'), open('/dev/full', 'wb') as f:
    f.write(b'text')


@pytest.mark.parametrize('path, mend', [
    ('gone/a', 'its directory is gone'), ('folder', 'a directory has this name'), ('file/a', 'a file stands where')])
def test_things_in_the_way(tmp_path, path, mend):
  (tmp_path / 'folder').mkdir()
  (tmp_path / 'file').touch()
  with pytest.raises(OutputError, match=mend):
    writing.write_text(tmp_path / path, 'text')
  assert sorted(os.listdir(tmp_path)) == ['file', 'folder']
