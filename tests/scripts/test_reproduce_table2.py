"""scripts/reproduce_table2.py with stand-ins for the runs."""

import csv
import json
import pathlib
import subprocess

import pytest
from absl.testing import flagsaver
from paper_reports import EXPERIMENT, REPORT, imported


@pytest.fixture(scope='module')
def table2():
  with imported('reproduce_table2') as module:
    yield module


@pytest.fixture
def ran(table2, monkeypatch):
  """Commands of the runs, each of which leaves REPORT; no T5X."""
  monkeypatch.setattr(table2.paper_runs, 't5x_settings', list)
  commands = []

  def run(command, **unused):
    commands.append(command)
    directory = pathlib.Path(command[4].removeprefix('--output_dir='))
    if 'base' not in command[3]:
      directory.mkdir(parents=True, exist_ok=True)
      (directory / 'report.json').write_text(json.dumps(REPORT))

  monkeypatch.setattr(subprocess, 'run', run)
  return commands


def reproduce(table2, directory, *settings, **given):
  given = {'checkpoints': 'models/{task}_{size}', **given}
  with flagsaver.flagsaver(output=str(directory), **given):
    return table2.main(['reproduce_table2', *settings])


def test_the_experiments_asked_for_are_run_once(table2, ran, tmp_path, monkeypatch):
  monkeypatch.setattr(table2.figures, 'save', lambda *unused: None)
  asked = dict(tasks=['ende'], drafters=['small'], temperatures=['1'])
  assert reproduce(table2, tmp_path, '--gin.compare.repeats=3', **asked) == 0
  command, = ran
  assert command[3].endswith('configs/table2/ende_small_t1.gin')
  assert command[4] == f'--output_dir={tmp_path}/ende_small_t1'
  assert command[5:] == ["--gin.TARGET='models/ende_xxl'", "--gin.DRAFT='models/ende_small'",
                         '--gin.compare.repeats=3']
  assert reproduce(table2, tmp_path, '--gin.compare.repeats=3', **asked) == 0 and len(ran) == 1
  assert reproduce(table2, tmp_path, **asked) == 1 and len(ran) == 1  # begun with other settings


def test_t5x_is_the_baseline_where_it_is_there(table2, ran, tmp_path, monkeypatch):
  monkeypatch.setattr(table2.figures, 'save', lambda *unused: None)
  monkeypatch.setattr(table2.paper_runs, 't5x_settings', lambda: ['--gin.compare.t5x=True'])
  assert reproduce(table2, tmp_path, demo=True) == 0
  assert '--gin.compare.t5x=True' in ran[0] and ran[0][3].endswith('configs/demo/table2.gin')


def test_what_failed_is_told_and_the_rest_is_written(table2, ran, tmp_path, capsys):
  assert reproduce(table2, tmp_path, tasks=['ende'], temperatures=['0', '1']) == 1
  assert 'failed: ende_base_t0, ende_base_t1;' in capsys.readouterr().err
  assert len(ran) == 6
  with open(tmp_path / 'table2.csv', newline='') as f:
    rows = list(csv.reader(f))
  assert rows[0][:2] == ['task', 'M_q'] and rows[1][:2] == ['EnDe', 'T5-small']
  assert [row[1] for row in rows[1:5]] == ['T5-small', 'T5-large', 'T5-small', 'T5-large']
  assert '3.4X' in (tmp_path / 'table2.md').read_text()
  assert all((tmp_path / f'table2.{kind}').stat().st_size for kind in ('png', 'svg'))


def test_mistakes_are_one_line(table2, ran, tmp_path, capsys):
  assert reproduce(table2, tmp_path, drafters=['tiny']) == 1
  assert 'error: --drafters has tiny; choose of small, base, large.' in capsys.readouterr().err
  assert reproduce(table2, tmp_path, checkpoints=None) == 1
  assert 'no --checkpoints, such as' in capsys.readouterr().err and not ran


def test_a_report_with_wrong_texts_is_not_finished(table2, tmp_path):
  finished = table2.paper_runs.finished
  wrong = {**EXPERIMENT, 'outputs': {'relation': 'different', 'not_ties': [{}]}}
  (tmp_path / 'report.json').write_text(json.dumps({'experiments': [wrong]}))
  assert finished(tmp_path) is None
  (tmp_path / 'report.json').write_text(json.dumps(REPORT))
  assert finished(tmp_path) == REPORT and finished(tmp_path / 'none') is None
