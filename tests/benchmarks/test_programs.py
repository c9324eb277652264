"""Other programs by name."""

import sys

import pytest
import tiny

from specdec_jax.benchmarks import programs
from specdec_jax.errors import DependencyError, SettingError


def test_unknown_names_are_refused():
  with pytest.raises(SettingError, match="'vllm', which is not known; known are t5x, transformers, ctranslate2"):
    programs.methods(['vllm'], tiny.random_t5(0), 8)


@pytest.mark.parametrize('name, module, mend', [
    ('t5x', 't5x', r"pip install -e '\.\[t5x\]'"),
    ('ctranslate2', 'ctranslate2', r"pip install -e '\.\[benchmarks\]'")])
def test_a_program_that_is_not_there_is_one_line(name, module, mend, target, monkeypatch):
  monkeypatch.setitem(sys.modules, module, None)
  with pytest.raises(DependencyError, match=mend):
    programs.methods([name], target, 8)


def test_what_is_here_knows_the_model(monkeypatch):
  monkeypatch.setattr(programs.importlib.util, 'find_spec', lambda name: None if name == 't5x' else name)
  assert programs.present(tiny.random_t5(0)) == ['transformers', 'ctranslate2']
