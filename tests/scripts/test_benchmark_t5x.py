"""scripts/benchmark_t5x.py with stand-ins for T5X's decode; T5X itself is no dependency."""

import importlib
import pathlib
import sys

from absl import flags
from absl.testing import flagsaver
import numpy as np
import pytest

from specdec_jax.decoding import autoregressive_decode
from specdec_jax.models.config import T5Config
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling
from tiny_pair import draft, files, target, vocabulary  # pylint: disable=unused-import

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'
SIZES = dict(emb_dim=32, num_heads=2, head_dim=16, mlp_dim=64, num_encoder_layers=1,
             num_decoder_layers=2)
LENGTH = 6


@pytest.fixture(scope='module')
def benchmark():
  sys.path.insert(0, str(SCRIPTS))
  module = importlib.import_module('benchmark_t5x')
  flags.FLAGS.mark_as_parsed()
  yield module
  sys.path.remove(str(SCRIPTS))
  for flag in flags.FLAGS.flags_by_module_dict()[module.__name__]:
    delattr(flags.FLAGS, flag.name)
  del sys.modules[module.__name__]


class StandIn:
  """The target's greedy text; `change` edits its tokens."""

  name = 'T5X'

  def __init__(self, benchmark, change=lambda tokens: tokens):
    self.benchmark, self.change, self.calls = benchmark, change, 0

  def __call__(self, target, batch):
    self.calls += 1
    result = autoregressive_decode(target, batch.tokens, sampling=Sampling(temperature=0.0),
                                   max_decode_len=LENGTH)
    return self.benchmark.as_result(self.change(result.tokens.copy()), target.eos_id)


def run(benchmark, files, monkeypatch, stand_in=None):
  if stand_in is not None:
    monkeypatch.setattr(benchmark, 'T5XMethod', lambda target, max_decode_len: stand_in)
  with flagsaver.flagsaver(target=str(files / 'target'), draft=str(files / 'draft'), gamma=[2],
                           inputs=str(files / 'inputs.jsonl'), limit=3, repeats=2,
                           max_input_len=16, max_decode_len=LENGTH):
    return benchmark.main(['benchmark_t5x'])


def test_tokens_are_counted_up_to_the_first_eos(benchmark):
  result = benchmark.as_result([[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 9, 1], [0, 4, 0, 1]], eos_id=1)
  assert result.lengths.tolist() == [2, 4, 2, 4]
  assert result.tokens.tolist() == [[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 0, 0], [0, 4, 0, 1]]
  assert result.status.tolist() == [Status.EOS, Status.LENGTH, Status.EOS, Status.EOS]
  assert result.stats.emitted.tolist() == result.stats.target_calls.tolist() == [2, 4, 2, 4]


def test_counts_agree_with_our_own_decode(benchmark, target):
  tokens = target.encode(['the file is not valid', 'new window'])
  ours = autoregressive_decode(target, tokens, sampling=Sampling(temperature=0.0),
                               max_decode_len=LENGTH)
  counted = benchmark.as_result(ours.tokens, target.eos_id)
  for name in ('tokens', 'lengths', 'status'):
    np.testing.assert_array_equal(getattr(counted, name), getattr(ours, name))


def test_sizes_are_passed_on(benchmark):
  fields = benchmark.t5x_config(T5Config(mlp_activations=('relu',), **SIZES))
  assert {name: fields[name] for name in SIZES} == SIZES
  assert fields['mlp_activations'] == ('relu',) and fields['dropout_rate'] == 0
  assert fields['vocab_size'] == 32128 and fields['dtype'] == np.float32


@pytest.mark.parametrize('change, message', [
    ({'num_buckets': 16}, r'num_buckets = 16 \(T5X: 32\)'),
    ({'relative_bias_per_layer': True, 'layer_norm_epsilon': 1e-5},
     r'relative_bias_per_layer = True .*, layer_norm_epsilon = 1e-05'),
])
def test_models_t5x_has_no_network_for_are_refused(benchmark, change, message):
  with pytest.raises(ValueError, match=message):
    benchmark.t5x_config(T5Config(**SIZES, **change))


def test_without_t5x_one_line_says_how_to_get_it(benchmark, files, monkeypatch, capsys):
  monkeypatch.setitem(sys.modules, 't5x', None)
  assert run(benchmark, files, monkeypatch) == 1
  error = capsys.readouterr().err
  assert error.count('\n') == 1 and "pip install -e '.[t5x]'" in error


def test_the_table_counts_the_same_tokens_for_all(benchmark, files, monkeypatch, capsys):
  stand_in = StandIn(benchmark)
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

  assert run(benchmark, files, monkeypatch, StandIn(benchmark, change)) == 1
  out, error = capsys.readouterr()
  assert '0 of 3' in out
  assert "texts differ from T5X's" in error and 'differs at token 1' in error
