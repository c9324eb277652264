import json

import pytest

from specdec_jax.jobs import output


def test_a_directory_belongs_to_its_configuration(tmp_path):
  directory = str(tmp_path / 'out')
  output.claim(directory, {'decode.gamma': '7', 'OUTPUT_DIR': "'a'", 'main.run': '@decode'})
  (tmp_path / 'out' / 'predictions.partial.jsonl').write_text('{}\n')
  output.claim(directory, {'decode.gamma': '7', 'OUTPUT_DIR': "'b'", 'main.run': '@decode'})
  with pytest.raises(ValueError, match=r'\(decode\.gamma is 7 there and 5 here\)'):
    output.claim(directory, {'decode.gamma': '5', 'main.run': '@decode'})
  with pytest.raises(ValueError, match=r'\(run is @decode there and @compare here\)'):
    output.claim(directory, {'decode.gamma': '7', 'main.run': '@compare'})
  output.claim_examples(directory, 'abc')
  output.claim_examples(directory, 'abc')
  with pytest.raises(ValueError, match='inputs have changed'):
    output.claim_examples(directory, 'abd')


def test_a_start_that_failed_before_any_result_keeps_no_one_out(tmp_path):
  output.claim(str(tmp_path), {'decode.gamma': '0'})
  (tmp_path / 'predictions.partial.jsonl').touch()
  output.claim(str(tmp_path), {'decode.gamma': '1'})
  assert json.loads((tmp_path / 'run.json').read_text())['bindings']['decode.gamma'] == '1'


def test_other_directories_are_refused(tmp_path):
  (tmp_path / 'thesis.tex').write_text('words')
  with pytest.raises(ValueError, match='holds files of something else'):
    output.claim(str(tmp_path), {})
  with pytest.raises(ValueError, match='name a local directory'):
    output.claim('gs://bucket/out', {})


def test_a_damaged_record_is_named(tmp_path):
  (tmp_path / 'run.json').write_text('{"bind')
  (tmp_path / 'predictions.jsonl').write_text('{}\n')
  with pytest.raises(ValueError, match=r"run.json' is damaged"):
    output.claim(str(tmp_path), {})


def test_the_environment_can_be_saved():
  found = json.loads(json.dumps(output.environment()))
  assert {'jax', 'numpy', 'specdec_jax'} <= set(found['packages'])
  assert found['device']['count'] >= 1 and found['jax_config']
