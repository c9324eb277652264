import os

import pytest

from specdec_jax import paths
from specdec_jax.errors import MissingError, SettingError


def test_home_folders_shipped_files_and_others(monkeypatch, tmp_path):
  monkeypatch.setenv('HOME', str(tmp_path))
  assert paths.resolve('~/a/b') == f'{tmp_path}/a/b'
  assert paths.resolve(tmp_path / 'a') == f'{tmp_path}/a'
  assert paths.resolve('embedded:ende/target') == str(paths.PACKAGE / 'embedded' / 'ende' / 'target')
  for same in ('a/~b', 'gs://bucket/~/a', '/a'):
    assert paths.resolve(same) == same


@pytest.mark.parametrize('path', [5, None, ['a'], b'a', '', 'a\0b', os])
def test_what_is_no_path_is_refused_by_the_setting_s_name(path):
  with pytest.raises(SettingError, match=r'^TARGET is .*; it must be a path'):
    paths.resolve(path, 'TARGET')


def test_what_is_not_shipped():
  with pytest.raises(MissingError, match="ships no 'embedded:ende/other'; it has embedded:ende"):
    paths.resolve('embedded:ende/other')
