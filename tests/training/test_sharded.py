"""A mesh changes where a training state lies, and no loss; on eight virtual devices of a CPU."""

import json
import pathlib

import numpy as np
import pytest
import virtual_devices

HERE = pathlib.Path(__file__).parent


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  directory = tmp_path_factory.mktemp('sharded')
  return directory, virtual_devices.run(HERE / 'eight_devices.py', directory)


@pytest.fixture
def directory(trained):
  return trained[0]


@pytest.fixture
def facts(trained):
  return trained[1]


def losses(directory, name, steps=4):
  """{(field, step): value} of a run's log."""
  lines = map(json.loads, (directory / name / 'log.jsonl').read_text().splitlines())
  return {(field, line['step']): line[field] for line in lines for field in ('loss', 'validation_loss')
          if field in line and line['step'] <= steps}


def same_losses(directory, one, name):
  ours, theirs = losses(directory, name), losses(directory, one)
  assert len(ours) == 6 and list(ours) == list(theirs)
  np.testing.assert_allclose(list(ours.values()), list(theirs.values()), rtol=1e-5)


@pytest.mark.parametrize('one, name', [('one', '2x4'), ('2x4', 'stopped')])
def test_a_mesh_has_the_losses_of_one_device(directory, one, name):
  same_losses(directory, one, name)


@pytest.mark.long
def test_so_has_every_mesh_and_optimiser_and_so_have_heads(directory):
  pairs = [('one', '4x2'), ('one', '8x1'), ('adafactor_one', 'adafactor_2x4'), ('heads_one', 'heads_2x4')]
  virtual_devices.run(HERE / 'eight_devices.py', directory, *{name for pair in pairs for name in pair} - {'one'})
  for pair in pairs:
    same_losses(directory, *pair)


def test_a_stopped_run_goes_on_exactly(directory, facts):
  assert facts['resumed']
  lines = map(json.loads, (directory / 'stopped' / 'log.jsonl').read_text().splitlines())
  assert [line['step'] for line in lines if 'loss' in line] == [1, 2, 3, 4]  # not 1, 2 and again from 1


def test_a_model_on_a_mesh_is_saved_whole(facts):
  assert facts['saved']


def test_a_device_gets_its_part_of_parameters_and_moments(facts):
  assert facts['held'] == [[6, 16]] * 3  # [24, 16] in 4 parts: parameter, mu and nu
  assert facts['taken up'] == [[6, 16]]


def test_a_run_goes_on_on_another_mesh(directory):
  lines = map(json.loads, (directory / 'one' / 'log.jsonl').read_text().splitlines())
  assert [line['step'] for line in lines if 'loss' in line] == [1, 2, 3, 4, 5, 6]
  found = losses(directory, 'one', steps=6)
  assert np.isfinite(found['loss', 6]) and found['loss', 6] != found['loss', 4]


def test_a_mesh_that_does_not_divide_the_model_is_refused(facts):
  assert 'Mesh.model = 3 does not divide this model (num_heads = 8' in facts['refused']
