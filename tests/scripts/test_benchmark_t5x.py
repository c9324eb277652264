"""scripts/benchmark_t5x.py with stand-ins for T5X's decode; T5X itself is no dependency."""

import importlib
import pathlib
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

from specdec_jax.benchmarks.t5x_method import as_result
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.sampling import Sampling

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'
LENGTH = 6


@pytest.fixture(scope='module')
def benchmark():
  sys.path.insert(0, str(SCRIPTS))
  module = importlib.import_module('benchmark_t5x')
  flags.FLAGS.mark_as_parsed()
  yield module
  sys.path.remove(str(SCRIPTS))
  for flag in flags.FLAGS.flags_by_module_dict()['benchmark_pair']:
    delattr(flags.FLAGS, flag.name)
  del sys.modules['benchmark_t5x'], sys.modules['benchmark_pair']


class StandIn:
  """The target's greedy text; `change` edits its tokens."""

  name = 'T5X'

  def __init__(self, change=lambda tokens: tokens):
    self.change, self.calls = change, 0

  def __call__(self, target, batch):
    self.calls += 1
    result = autoregressive_decode(target, batch.tokens, sampling=Sampling(temperature=0.0),
                                   max_decode_len=LENGTH)
    return as_result(self.change(result.tokens.copy()), target.eos_id)


def run(benchmark, files, monkeypatch, stand_in=None):
  if stand_in is not None:
    monkeypatch.setattr(benchmark, 'T5XMethod', lambda target, max_decode_len: stand_in)
  with flagsaver.flagsaver(target=str(files / 'target'), draft=str(files / 'draft'), gamma=[2],
                           inputs=str(files / 'inputs.jsonl'), limit=3, repeats=2,
                           max_input_len=16, max_decode_len=LENGTH):
    return benchmark.main(['benchmark_t5x'])


def test_without_t5x_one_line_says_how_to_get_it(benchmark, files, monkeypatch, capsys):
  monkeypatch.setitem(sys.modules, 't5x', None)
  assert run(benchmark, files, monkeypatch) == 1
  error = capsys.readouterr().err
  assert error.count('\n') == 1 and "pip install -e '.[t5x]'" in error


def test_the_table_counts_the_same_tokens_for_all(benchmark, files, monkeypatch, capsys):
  stand_in = StandIn()
  assert run(benchmark, files, monkeypatch, stand_in) == 0
  lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith('|')]
  header, _, *rows = [[cell.strip() for cell in line.strip('|').split('|')] for line in lines]
  rows = {row[0]: dict(zip(header, row)) for row in rows}
  assert len(rows) == 3
  assert rows['T5X']['against T5X'] == '1.00X' and rows['T5X']['tokens per call'] == '1.00'
  assert 'specdec_jax, target alone' in rows
  assert len({row['tokens'] for row in rows.values()}) == 1
  assert {row['equal texts'] for row in rows.values()} == {'3 of 3'}
  for row in rows.values():
    ratio = float(row['tokens/s']) / float(rows['T5X']['tokens/s'])
    assert float(row['against T5X'].rstrip('X')) == pytest.approx(ratio, abs=0.02)
  assert stand_in.calls == 1 + 2 * 3  # a warm-up of the one shape, two timings of each input


def test_other_texts_are_an_error(benchmark, files, monkeypatch, capsys):
  def change(tokens):
    tokens[:, 1] = tokens[:, 1] % 50 + 2
    return tokens

  assert run(benchmark, files, monkeypatch, StandIn(change)) == 1
  out, error = capsys.readouterr()
  assert '0 of 3' in out
  assert "texts differ from T5X's" in error and 'differs at token 1' in error
