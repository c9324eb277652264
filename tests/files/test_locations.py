"""Local and gs:// paths."""

import os
import pathlib

import pytest

from specdec_jax.errors import CheckpointError
from specdec_jax.files import locations


@pytest.mark.parametrize('path, store', [
    ('gs://bucket/a/b', {'driver': 'gcs', 'bucket': 'bucket', 'path': 'a/b/'}),
    ('gs://bucket/a/b/', {'driver': 'gcs', 'bucket': 'bucket', 'path': 'a/b/'}),
    ('gs://bucket', {'driver': 'gcs', 'bucket': 'bucket', 'path': ''}),
    ('/a/b', {'driver': 'file', 'path': '/a/b/'}),
    (pathlib.Path('/a/b'), {'driver': 'file', 'path': '/a/b/'})])
def test_kvstore(path, store):
  assert locations.kvstore(locations.absolute(path)) == store


def test_absolute():
  assert os.fspath(locations.absolute('a/b')) == os.path.abspath('a/b')
  assert os.fspath(locations.absolute('~/b')) == os.path.expanduser('~/b')
  assert os.fspath(locations.absolute('gs://bucket/a')) == 'gs://bucket/a'


def test_other_addresses_are_refused():
  with pytest.raises(CheckpointError, match="'s3://bucket/a': only local and gs://"):
    locations.kvstore('s3://bucket/a')
