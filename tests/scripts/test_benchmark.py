"""scripts/benchmark.py on the tiny pair, without other programs."""

import json

import pytest
from absl.testing import flagsaver
from paper_reports import imported


@pytest.fixture(scope='module')
def benchmark():
  with imported('benchmark') as module:
    yield module


def run(benchmark, files, **more):
  settings = dict(target=str(files / 'target'), draft=str(files / 'draft'), inputs=str(files / 'inputs.jsonl'),
                  gamma=[2], others=[], limit=2, job_limit=3, batch_size=2, repeats=1, max_input_len=16,
                  max_decode_len=6, auto=False)
  with flagsaver.flagsaver(**{**settings, **more}):
    return benchmark.main(['benchmark'])


@pytest.mark.long
def test_it_prints_and_keeps_both_tables(benchmark, files, tmp_path, capsys):
  assert run(benchmark, files, output_dir=str(tmp_path / 'made')) == 0
  found = json.loads((tmp_path / 'made/benchmark.json').read_text())
  assert [row['equal_texts'] for row in found['one_by_one']] == [2, 2] and found['limit']['tokens_per_second'] > 0
  assert [row['equal_texts'] for row in found['job']] == [3, 3] and 'jax' in found['versions']
  text = (tmp_path / 'made/benchmark.md').read_text()
  assert text in capsys.readouterr().out and '## Batch 1, 2 inputs' in text and 'batch size 2, 3 inputs' in text
  assert (tmp_path / 'made/benchmark.png').read_bytes().startswith(b'\x89PNG')


def test_texts_that_differ_end_it_in_one_line(benchmark, files, monkeypatch, capsys):
  differ = [{'decoder': 'T5X', 'not_ties': [{'id': 'a1', 'position': 3, 'margin': 0.5}]}]
  monkeypatch.setattr(benchmark.side_by_side, 'by_batch', lambda *arguments: differ)
  monkeypatch.setattr(benchmark.report, 'markdown', lambda found: '')
  assert run(benchmark, files, job_limit=0) == 1
  error = capsys.readouterr().err.splitlines()[-1]
  assert error.endswith("1 texts differ from our target's own where no tie explains it: T5X: example a1 differs at "
                        'token 3 (margin 0.5)')


def test_a_program_that_is_not_known_is_one_line(benchmark, files, capsys):
  assert run(benchmark, files, others=['vllm']) == 1
  assert "--others names 'vllm'" in capsys.readouterr().err.splitlines()[-1]
