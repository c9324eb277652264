"""Shared test set-up: the CPU, deterministic property tests, helper modules beside this file."""

import os
import pathlib
import sys

from hypothesis import settings
import pytest

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
sys.path.insert(0, str(pathlib.Path(__file__).parent))

settings.register_profile('repeatable', derandomize=True, deadline=None, database=None)
settings.load_profile('repeatable')


@pytest.fixture(autouse=True)
def no_configuration_is_left():
  """A run locks gin's configuration; the next test starts without one."""
  yield
  if 'gin' in sys.modules:
    sys.modules['gin'].clear_config()
