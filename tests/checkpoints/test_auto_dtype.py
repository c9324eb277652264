"""dtype = 'auto': the faster dtype of two, by timed passes."""

import families
import jax
import numpy as np
import pytest
import tiny

import specdec_jax as sd
from specdec_jax.checkpoints import auto_dtype, directory

MODELS = {'t5': tiny.random_t5(0), 'gpt2': families.random_gpt2(0)}


@pytest.fixture(params=MODELS)
def saved(request, tmp_path):
  """A model, and its directory."""
  sd.save_model(MODELS[request.param], tmp_path / 'model')
  return MODELS[request.param], tmp_path / 'model'


def same(a, b) -> bool:
  return a.config == b.config and jax.tree.all(
      jax.tree.map(lambda x, y: x.dtype == y.dtype and bool((x == y).all()), a.params, b.params))


def test_bfloat16_is_what_loading_in_it_gives(saved):
  model, path = saved
  assert same(auto_dtype.as_bfloat16(model), sd.load_model(path, dtype='bfloat16'))


@pytest.mark.parametrize('dtype, milliseconds', [
    ('float32', {'float32': (2, 3), 'bfloat16': (1, 5)}), ('bfloat16', {'float32': (2, 3), 'bfloat16': (2.5, 2)})])
def test_the_smaller_sum_wins_and_is_told(saved, monkeypatch, capsys, dtype, milliseconds):
  def pass_seconds(targets, tokens, tree, seconds):
    assert tree.num_nodes == 7 and {name: target.config.dtype for name, target in targets.items()} == {
        'float32': 'float32', 'bfloat16': 'bfloat16'}
    return {name: tuple(ms / 1e3 for ms in milliseconds[name]) for name in targets}

  monkeypatch.setattr(auto_dtype.cost, 'pass_seconds', pass_seconds)
  assert same(sd.load_model(saved[1], dtype='auto'), sd.load_model(saved[1], dtype=dtype))
  told = capsys.readouterr().err
  assert f"dtype 'auto' is {dtype}: a step and a pass over 8 tokens take 2 and 3 ms in float32, " in told


def test_it_is_timed(saved, capsys):
  model = sd.load_model(saved[1], dtype='auto')
  assert same(model, sd.load_model(saved[1], dtype=model.config.dtype))
  assert f"'auto' is {model.config.dtype}" in capsys.readouterr().err
  timed = auto_dtype.cost.pass_seconds({'it': model}, np.full((1, 4), 2), auto_dtype.DRAFT, rounds=1, seconds=0.01)
  assert min(timed['it']) > 0


def test_on_a_tpu_or_gpu_it_is_bfloat16_and_nothing_is_timed(saved, monkeypatch, capsys):
  monkeypatch.setattr(directory.jax, 'default_backend', lambda: 'tpu')
  monkeypatch.setattr(auto_dtype, 'faster', None)
  assert sd.load_model(saved[1], dtype='auto').config.dtype == 'bfloat16'
  assert "dtype 'auto' is bfloat16, as on every TPU and GPU." in capsys.readouterr().err
