import json
import os

import pytest

from specdec_jax.errors import OutputError, SettingError
from specdec_jax.jobs.claims import claimed, tie_contents

SEVEN = {'decode.gamma': '7', 'main.run': '@decode'}


def claim(directory, bindings, results=False):
  """A run that ends at once, with results or without."""
  with claimed(str(directory), bindings) as path:
    if results:
      with open(f'{path}/predictions.partial.jsonl', 'w', encoding='utf-8') as f:
        f.write('{}\n')


def test_a_directory_belongs_to_its_configuration(tmp_path):
  claim(tmp_path / 'out', {**SEVEN, 'OUTPUT_DIR': "'a'"}, results=True)
  claim(tmp_path / 'out', {**SEVEN, 'OUTPUT_DIR': "'b'", 'Hosts.process_id': '1', 'main.hosts': '@Hosts()'})
  with pytest.raises(OutputError, match=r'\(decode\.gamma is 7 there and 5 here\)'):
    claim(tmp_path / 'out', {**SEVEN, 'decode.gamma': '5'})
  with pytest.raises(OutputError, match=r'\(run is @decode there and @compare here\)'):
    claim(tmp_path / 'out', {**SEVEN, 'main.run': '@compare'})


def test_a_running_job_keeps_its_directory_before_it_has_results(tmp_path):
  with claimed(str(tmp_path), SEVEN):
    before = (tmp_path / 'run.json').read_text()
    for other in (SEVEN, {**SEVEN, 'decode.gamma': '5'}):
      with pytest.raises(OutputError, match=rf'is in use by process {os.getpid()} on .*since'):
        claim(tmp_path, other)
    assert (tmp_path / 'run.json').read_text() == before
  claim(tmp_path, {**SEVEN, 'decode.gamma': '5'})


def test_a_start_that_failed_before_any_result_keeps_no_one_out(tmp_path):
  claim(tmp_path, {'decode.gamma': '0'})
  (tmp_path / 'predictions.partial.jsonl').touch()
  (tmp_path / 'environment.json.partial').write_text('{')
  (tmp_path / 'process_1').mkdir()
  (tmp_path / 'process_1' / 'run.json').write_text('{}')
  claim(tmp_path, {'decode.gamma': '1'})
  assert json.loads((tmp_path / 'run.json').read_text())['bindings']['decode.gamma'] == '1'
  (tmp_path / 'process_1' / 'predictions.partial.jsonl').write_text('{}\n')
  with pytest.raises(OutputError, match='belongs to another configuration'):
    claim(tmp_path, {'decode.gamma': '2'})


@pytest.mark.parametrize('name', [
    '.lock', 'run.json', 'predictions.jsonl', 'predictions.partial.jsonl', 'process_1/predictions.partial.jsonl'])
def test_a_pipe_in_its_place_is_refused_and_not_waited_for(tmp_path, name):
  claim(tmp_path, SEVEN, results=True)
  (tmp_path / name).parent.mkdir(exist_ok=True)
  (tmp_path / name).unlink(missing_ok=True)
  os.mkfifo(tmp_path / name)
  with pytest.raises(OutputError, match=f"{name}' is (a pipe, not a file|the name of a lock, and no file; move)"):
    claim(tmp_path, SEVEN)


@pytest.mark.parametrize('name', ['thesis.tex', 'process_1/thesis.tex', 'folder/x'])
def test_other_directories_are_refused(tmp_path, name):
  (tmp_path / name).parent.mkdir(exist_ok=True)
  (tmp_path / name).write_text('words')
  with pytest.raises(OutputError, match=f"holds files of something else \\({name.removesuffix('/x')}\\)"):
    claim(tmp_path, {})
  assert not (tmp_path / 'run.json').exists()


@pytest.mark.parametrize('directory, error, words', [
    (5, SettingError, r'^output_dir is 5; it must be a path'),
    ('', SettingError, 'output_dir'), ('a\0b', SettingError, 'output_dir'),
    (__file__, OutputError, 'a file has this name: name another'),
    ('/dev/null/x', OutputError, "'/dev/null/x' cannot be written .*a file stands where")])
def test_what_is_no_local_directory_is_refused(directory, error, words):
  with pytest.raises(error, match=words), claimed(directory, {}):
    pass


def test_training_on_an_object_store_is_refused():
  with pytest.raises(OutputError, match='name a local directory'), claimed('gs://b/out', {'main.run': '@train'}):
    pass


def test_home_folders_are_known(tmp_path, monkeypatch):
  monkeypatch.setenv('HOME', str(tmp_path))
  with claimed('~/out', {}) as path:
    assert path == f'{tmp_path}/out' and (tmp_path / 'out' / 'run.json').exists()


@pytest.mark.parametrize('content, reason', [('', 'it is empty'), ('{"bind', 'Unterminated')])
def test_a_damaged_record_is_named(tmp_path, content, reason):
  claim(tmp_path, SEVEN, results=True)
  (tmp_path / 'run.json').write_text(content)
  with pytest.raises(OutputError, match=rf"run\.json' is damaged \({reason}"):
    claim(tmp_path, SEVEN)


def test_contents_that_changed_are_named(tmp_path):
  claim(tmp_path, SEVEN, results=True)
  tie_contents(str(tmp_path), {'inputs': 'abc', 'target': 'x'})
  tie_contents(str(tmp_path), {'inputs': 'abc', 'target': 'x'})
  with pytest.raises(OutputError, match='The inputs have changed since'):
    tie_contents(str(tmp_path), {'inputs': 'abd', 'target': 'x'})
  with pytest.raises(OutputError, match='The inputs and the target have changed'):
    tie_contents(str(tmp_path), {'inputs': 'abd', 'target': 'y'})
  claim(tmp_path, SEVEN)  # goes on
  tie_contents(str(tmp_path), {'inputs': 'abc', 'target': 'x'})


def test_a_start_without_results_forgets_its_contents(tmp_path):
  claim(tmp_path, SEVEN)
  tie_contents(str(tmp_path), {'inputs': 'abc'})
  claim(tmp_path, SEVEN)
  tie_contents(str(tmp_path), {'inputs': 'abd'})
