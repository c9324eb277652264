"""What goes into transformers' classes is what its own files hold; torch is not needed to see that."""

import contextlib
import copy
import dataclasses
import json
import sys
import types

import numpy as np
import pytest
import tiny
from safetensors.numpy import load_file

from specdec_jax.checkpoints.huggingface import export


@pytest.mark.parametrize('name', ['gpt2', 't5_v1_0', 't5_v1_1', 't5_v1_1_tied'])
def test_names_values_and_sizes_are_those_of_the_file(hf, imported, name):
  model = imported(hf / name / 'target', 'huggingface')
  for parameter, expected in load_file(hf / name / 'target' / 'model.safetensors').items():
    found = export.value(model, parameter)
    np.testing.assert_array_equal(found, expected, err_msg=parameter)
  fields = export.fields_of(model)
  theirs = json.loads((hf / name / 'target' / 'config.json').read_text())
  skipped = ('n_inner', 'bos_token_id', 'pad_token_id', 'tie_word_embeddings', 'scale_decoder_outputs')
  assert {k: v for k, v in fields.items() if k not in skipped} == {
      k: theirs[k] for k in fields if k not in skipped}


def test_padding_rows_are_left_out(hf, imported):
  model = imported(hf / 'gpt2' / 'target', 'huggingface')
  model = model.replace(config=dataclasses.replace(model.config, num_pieces=90))
  assert export.value(model, 'transformer.wte.weight').shape == (90, 32)
  assert export.fields_of(model)['vocab_size'] == 90


def test_what_transformers_lacks_is_named(hf, imported):
  with pytest.raises(ValueError, match='one relative bias a stack and an encoder that sees the whole text'):
    export.fields_of(imported(hf / 'umt5' / 'target', 'huggingface'))


class Weight(np.ndarray):
  """An array with what is asked of a torch parameter."""

  detach, clone = lambda self: self, np.ndarray.copy

  def copy_(self, other):
    self[...] = other


class StandIn:
  """As T5ForConditionalGeneration: stacks with copies of the configuration, logits tied whatever it says."""

  def __init__(self, config):
    self.config, self.encoder = config, types.SimpleNamespace(config=copy.copy(config))
    self.shared = types.SimpleNamespace(weight=np.zeros((config.vocab_size, config.d_model)).view(Weight))
    self.lm_head = types.SimpleNamespace(weight=self.shared.weight)
    self.eval = lambda: self

  def named_parameters(self):
    yield 'shared.weight', self.shared.weight
    if self.lm_head.weight is not self.shared.weight:
      yield 'lm_head.weight', self.lm_head.weight


@pytest.fixture
def stand_ins(monkeypatch):
  torch = types.SimpleNamespace(no_grad=contextlib.nullcontext, from_numpy=lambda x: x,
                                nn=types.SimpleNamespace(Parameter=lambda x: x))
  monkeypatch.setitem(sys.modules, 'torch', torch)
  monkeypatch.setitem(sys.modules, 'transformers', types.SimpleNamespace(
      T5Config=types.SimpleNamespace, GenerationConfig=types.SimpleNamespace,
      T5ForConditionalGeneration=StandIn))


@pytest.mark.usefixtures('stand_ins')
def test_generates_cache_has_the_decoders_layers():
  made = export.to_transformers(tiny.random_t5(0, num_encoder_layers=1, num_decoder_layers=2))
  assert made.config.num_layers == made.config.num_decoder_layers == 2
  assert made.encoder.config.num_layers == 1


@pytest.mark.usefixtures('stand_ins')
@pytest.mark.parametrize('tied', [False, True])
def test_untied_logits_are_untied(tied):
  model = tiny.random_t5(0, logits_via_embedding=tied)
  made = export.to_transformers(model)
  assert (made.lm_head.weight is made.shared.weight) == tied
  np.testing.assert_array_equal(
      made.shared.weight, model.params['token_embedder']['embedding'][:model.num_tokens])
  if not tied:
    np.testing.assert_array_equal(
        made.lm_head.weight, model.params['decoder']['logits_dense']['kernel'].T[:model.num_tokens])


def test_without_torch_one_line_says_how_to_get_it(monkeypatch):
  monkeypatch.setitem(sys.modules, 'torch', None)
  with pytest.raises(ImportError, match=r"pip install -e '.\[huggingface\]'"):
    export.to_transformers(None)
