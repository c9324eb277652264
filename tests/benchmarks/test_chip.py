"""One chip measured: at a tiny size, on a CPU."""

import dataclasses
import importlib
import json
import sys

import jax
import pytest
from absl.testing import flagsaver
from paper_reports import imported

from specdec_jax.benchmarks import chip, chip_report
from specdec_jax.benchmarks.random_weights import random_model
from specdec_jax.models import known


@pytest.fixture(scope='module')
def command():
  with imported('benchmark_chip'):  # which has the flags
    yield importlib.import_module('benchmark_gpu').main
    del sys.modules['benchmark_gpu']


@pytest.fixture(scope='module', autouse=True)
def sizes():
  """Two sizes with names of their own."""
  made = {'tiny_target': known._t5(32, 2, 16, 64, 1, 1, vocab_size=256),
          'tiny_t5_small': known._t5(16, 2, 8, 32, 1, 1, vocab_size=256)}
  known._T5_MODELS.update(made)
  yield
  for name in made:
    del known._T5_MODELS[name]


def run(command, **more):
  settings = dict(target='tiny_target', drafts=['tiny_t5_small'], dtype='float32', input_length=8, max_decode_len=12,
                  widths=['2'], nodes=2, repeats=1, seconds=600, anywhere=True)
  with flagsaver.flagsaver(**{**settings, **more}):
    return command(['benchmark_gpu'])


def test_weights_have_the_size_and_dtype_of_the_name():
  model = random_model('tiny_target', 'bfloat16')
  kinds = {str(x.dtype) for x in jax.tree.leaves(model.params)}
  assert kinds == {'bfloat16', 'float32'} and model.config.dtype == 'bfloat16' and model.eos_id == 255
  assert model.params['decoder']['logits_dense']['kernel'].shape == (32, 256)


@pytest.mark.long
def test_it_measures_prints_and_keeps(command, tmp_path, capsys, monkeypatch):
  monkeypatch.setattr(chip, '_rows', lambda name: [dataclasses.replace(chip.paper.TABLE_2[0], gamma=1)])
  assert run(command, output_dir=str(tmp_path)) == 0
  found = json.loads((tmp_path / 'benchmark_gpu.json').read_text())
  assert [p['tokens'] for p in found['passes']] == [1, 3] and found['passes'][0]['verify_cost'] == 1
  assert [d['draft'] for d in found['drafts']] == ['tiny_t5_small'] and found['drafts'][0]['c'] > 0
  chain, tree = found['decodes']
  assert chain['same_texts'] and tree['same_texts'] and chain['paper'] == 3.4 and tree['paper'] is None
  assert chain['predicted'] > 0 and tree['tokens_per_call'] > 1 and not found['left_out']
  text = (tmp_path / 'benchmark_gpu.md').read_text()
  assert text in capsys.readouterr().out and chip_report.SYNTHETIC in text and '3.4X' in text
  assert (tmp_path / 'benchmark_gpu.png').read_bytes().startswith(b'\x89PNG')


def test_what_there_is_no_time_for_is_named(monkeypatch):
  clock = chip.Clock(0)
  assert not clock.allows('the draft x') and clock.left_out == ['the draft x']
  assert chip.Clock(60).allows('all')


@pytest.mark.parametrize('settings, message', [
    (dict(anywhere=False), 'jax runs on cpu here, and this is a benchmark of a gpu'),
    (dict(widths=['1', 'x']), '--widths is 1,x; it must be whole numbers'),
    (dict(target='t5_9'), "'t5_9', which is not known")])
def test_mistakes_are_one_line(command, settings, message, capsys):
  assert run(command, **settings) == 1
  assert message in capsys.readouterr().err.strip().splitlines()[-1]
