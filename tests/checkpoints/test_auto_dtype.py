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
    ('float32', {('float32', 1): 2, ('float32', 8): 3, ('bfloat16', 1): 1, ('bfloat16', 8): 5}),
    ('bfloat16', {('float32', 1): 2, ('float32', 8): 3, ('bfloat16', 1): 2.5, ('bfloat16', 8): 2})])
def test_the_smaller_sum_wins_and_is_told(saved, monkeypatch, capsys, dtype, milliseconds):
  monkeypatch.setattr(auto_dtype, '_seconds', lambda model, width: milliseconds[model.config.dtype, width] / 1e3)
  assert same(sd.load_model(saved[1], dtype='auto'), sd.load_model(saved[1], dtype=dtype))
  told = capsys.readouterr().err
  assert f"dtype 'auto' is {dtype}: a step and a pass over 8 tokens take 2 and 3 ms in float32, " in told


def test_it_is_timed(saved, capsys):
  model = sd.load_model(saved[1], dtype='auto')
  assert same(model, sd.load_model(saved[1], dtype=model.config.dtype))
  assert f"'auto' is {model.config.dtype}" in capsys.readouterr().err
  assert all(auto_dtype._seconds(model, width) > 0 for width in auto_dtype.WIDTHS)


def test_every_pass_is_run(saved):
  """The tokens of a pass come from the one before: what comes out is what as many steps give by hand."""
  model, tokens = saved[0], np.full((1, 1), 2, np.int32)
  cache, found = auto_dtype._passes(model, auto_dtype._prefill(model, np.full((1, 4), 2, np.int32), 4), width=1)
  by_hand = auto_dtype._prefill(model, np.full((1, 4), 2, np.int32), 4)
  for _ in range(auto_dtype._CALLS):
    logits, by_hand = model.step(by_hand, tokens, np.zeros(1, np.int32))
    tokens = np.asarray(logits.argmax(-1), np.int32)
  np.testing.assert_array_equal(found, tokens)
  jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, atol=1e-5), cache, by_hand)


def test_on_a_tpu_or_gpu_it_is_bfloat16_and_nothing_is_timed(saved, monkeypatch, capsys):
  monkeypatch.setattr(directory.jax, 'default_backend', lambda: 'tpu')
  monkeypatch.setattr(auto_dtype, 'faster', None)
  assert sd.load_model(saved[1], dtype='auto').config.dtype == 'bfloat16'
  assert "dtype 'auto' is bfloat16, as on every TPU and GPU." in capsys.readouterr().err
