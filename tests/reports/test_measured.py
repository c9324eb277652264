import json

import pytest

from specdec_jax.analysis import theory
from specdec_jax.reports import measured as measured_lib

EXPERIMENT = {
    'sampling': {'temperature': 0.0, 'top_k': 0, 'top_p': 1.0}, 'gamma': 4, 'alpha': 0.7, 'c': 0.03,
    'c_hat': 0.01, 'verify_cost': 1.2, 'tokens_per_call': 2.5, 'speed_up': 1.9, 'target_calls': 100}


def written(directory, *experiments):
  path = directory / 'report.json'
  path.write_text(json.dumps({'drafter': 'model (small)', 'experiments': experiments}))
  return path


def test_read_and_predict(tmp_path):
  path = written(tmp_path, EXPERIMENT, {**EXPERIMENT, 'gamma': 7})
  first, second = measured_lib.read([path])
  assert (first.drafter, first.gamma, second.gamma) == ('model (small)', 4, 7)
  assert first.predicted == theory.walltime_improvement(0.7, 4, 0.03)
  assert first.predicted_with_verify_cost == theory.walltime_improvement(0.7, 4, 0.03, 1.2)
  assert first.operations == pytest.approx((4 * 0.01 + 5) / 2.5)
  assert len(measured_lib.read([path, path])) == 4


def test_acceptance_where_the_report_holds_it(tmp_path):
  older = {**EXPERIMENT, 'accepted_by_position': [80, 40, 10, 0]}
  counted = {**older, 'drafted_by_position': [100, 80, 40, 0]}
  first, second, third = measured_lib.read([written(tmp_path, EXPERIMENT, older, counted)])
  assert first.acceptance == second.acceptance == () and third.acceptance == (0.8, 0.5, 0.25)


def test_lenience_is_in_the_name(tmp_path):
  exact, lenient = measured_lib.read([written(tmp_path, EXPERIMENT, {**EXPERIMENT, 'lenience': 0.5})])
  assert (exact.name, lenient.name) == ('model (small)', 'model (small), lenience 0.5')


def test_what_is_no_report_is_refused_by_name(tmp_path):
  with pytest.raises(FileNotFoundError, match='no report at .*missing.json'):
    measured_lib.read([tmp_path / 'missing.json'])
  for text in ('{', '{"experiments": [{}]}', '[]'):
    (tmp_path / 'report.json').write_text(text)
    with pytest.raises(ValueError, match='report.json.* is not the report.json of a compare run'):
      measured_lib.read([tmp_path / 'report.json'])
