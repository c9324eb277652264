"""The fixtures of tests/fixtures, unpacked and imported once."""

import functools
import pathlib
import tarfile
import types

import numpy as np
import pytest

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.importer import import_checkpoint

FIXTURES = pathlib.Path(__file__).parents[1] / 'fixtures'


@pytest.fixture(scope='session')
def hf():
  """Folder of the Hugging Face fixtures."""
  return FIXTURES / 'hf'


@pytest.fixture(scope='session')
def t5x(tmp_path_factory):
  """Folder of the T5X fixtures, unpacked; not to be written to."""
  folder = tmp_path_factory.mktemp('fixtures')
  with tarfile.open(FIXTURES / 't5x.tar.xz') as archive:
    archive.extractall(folder, filter='data')
  return folder / 't5x'


@pytest.fixture(scope='session')
def imported(tmp_path_factory):
  """imported(path, format) -> the Model, imported through a model directory."""
  @functools.cache
  def run(path, checkpoint_format):
    output = tmp_path_factory.mktemp('imported') / 'model'
    import_checkpoint(path, output, checkpoint_format)
    return load_model(output)
  return run


@pytest.fixture(scope='session')
def expected():
  """expected(folder) -> what the program that wrote it computed, as attributes."""
  return functools.cache(
      lambda folder: types.SimpleNamespace(**np.load(folder / 'expected.npz')))
