"""A mesh changes where a training state lies, and no loss; on eight virtual devices of a CPU."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

HERE = pathlib.Path(__file__).parent
MESHES = ('2x4', '4x2', '8x1')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  directory = tmp_path_factory.mktemp('sharded')
  paths = [str(HERE.parents[1]), str(HERE.parent), os.environ.get('PYTHONPATH', '')]
  subprocess.run([sys.executable, str(HERE / 'eight_devices.py'), str(directory)], check=True,
                 env={**os.environ, 'JAX_PLATFORMS': 'cpu', 'PYTHONPATH': os.pathsep.join(paths)})
  return directory


def facts(directory):
  return json.loads((directory / 'facts.json').read_text())


def losses(directory, name, steps=4):
  """{(field, step): value} of a run's log."""
  lines = map(json.loads, (directory / name / 'log.jsonl').read_text().splitlines())
  return {(field, line['step']): line[field] for line in lines for field in ('loss', 'validation_loss')
          if field in line and line['step'] <= steps}


@pytest.mark.parametrize('one, name', [*(('one', mesh) for mesh in MESHES),
                                       ('adafactor_one', 'adafactor_2x4'), ('2x4', 'stopped')])
def test_every_mesh_has_the_losses_of_one_device(trained, one, name):
  ours, theirs = losses(trained, name), losses(trained, one)
  assert len(ours) == 6 and list(ours) == list(theirs)
  np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)


def test_a_stopped_run_goes_on_exactly(trained):
  assert facts(trained)['resumed']


def test_a_model_on_a_mesh_is_saved_whole(trained):
  assert facts(trained)['saved']


def test_a_device_gets_its_part_of_parameters_and_moments(trained):
  assert facts(trained)['held'] == [[6, 16]] * 3  # [24, 16] in 4 parts: parameter, mu and nu
  assert facts(trained)['taken up'] == [[6, 16]]


def test_a_run_goes_on_on_another_mesh(trained):
  found = losses(trained, 'one', steps=6)
  assert np.isfinite(found['loss', 6]) and found['loss', 6] != found['loss', 4]


def test_a_mesh_that_does_not_divide_the_model_is_refused(trained):
  assert 'Mesh.model = 3 does not divide this model (num_heads = 8' in facts(trained)['refused']
