"""A job that is killed at any moment and started again ends in the files of an undisturbed one, bit for bit."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent


@pytest.mark.parametrize('kills', [2, pytest.param(200, marks=pytest.mark.long)])
def test_kills_change_no_bit(files, tmp_path, kills):
  done = subprocess.run(
      [sys.executable, HERE / 'killed.py', files, tmp_path, str(kills), '0'], text=True, stdout=subprocess.PIPE,
      env={**os.environ, 'PYTHONPATH': str(HERE.parents[1]), 'JAX_PLATFORMS': 'cpu'})
  assert done.returncode == 0, (tmp_path / 'log.txt').read_text()[-3000:]
  counts = json.loads(done.stdout)
  assert counts.pop('jobs') > 0 and sum(counts.values()) == kills
  assert kills < 20 or set(counts) == {'starting', 'decoding', 'finishing'}
