"""GPT-2 written by transformers: names, logits, greedy texts at gamma 1 to 8, what is refused."""

import json
import shutil

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.errors import CheckpointError

GREEDY, LENGTH = sd.Sampling(temperature=0.0), 24


@pytest.fixture(scope='module')
def pair(hf, imported):
  return (imported(hf / 'gpt2' / 'target', 'huggingface'),
          imported(hf / 'gpt2' / 'draft', 'huggingface'))


def test_logits(pair, hf, expected):
  e = expected(hf / 'gpt2')
  for model, logits in zip(pair, (e.logits, e.draft_logits)):
    np.testing.assert_allclose(model.logits(decoder_tokens=e.input_ids), logits, atol=1e-4)


@pytest.mark.parametrize('gamma, rows', [
    (0, (0, 1, 2)), (8, (0, 1, 2)), (4, (1,)), pytest.param(1, (0, 1, 2), marks=pytest.mark.long),
    pytest.param(0, (2,), marks=pytest.mark.long)])
def test_greedy(pair, hf, expected, gamma, rows):
  e, rows = expected(hf / 'gpt2'), list(rows)
  options = dict(lengths=e.lengths[rows], sampling=GREEDY, max_decode_len=LENGTH)
  if gamma:
    r = sd.speculative_decode(pair[0], sd.ModelDrafter(pair[1]), e.input_ids[rows], gamma=gamma, **options)
  else:
    r = sd.autoregressive_decode(pair[0], e.input_ids[rows], **options)
  np.testing.assert_array_equal(r.tokens, e.greedy[rows])


@pytest.mark.long
@pytest.mark.parametrize('gamma', range(1, 9))
def test_greedy_at_every_gamma(pair, hf, expected, gamma):
  e = expected(hf / 'gpt2')
  for rows in ([0, 1, 2], [0], [1], [2]):
    r = sd.speculative_decode(pair[0], sd.ModelDrafter(pair[1]), e.input_ids[rows], gamma=gamma,
                              lengths=e.lengths[rows], sampling=GREEDY, max_decode_len=LENGTH)
    np.testing.assert_array_equal(r.tokens, e.greedy[rows])


@pytest.mark.parametrize('change, message', [
    ({'activation_function': 'laplace'}, "activation_function uses 'laplace'"),
    ({'scale_attn_by_inverse_layer_idx': True}, 'scale_attn_by_inverse_layer_idx is True'),
    ({'n_layer': 4}, r'missing: decoder/layers_3/mlp/wi/kernel \[32, 128\]'),
    ({'n_embd': None}, "no 'n_embd'"),
])
def test_what_does_not_fit_is_named(hf, tmp_path, change, message):
  shutil.copytree(hf / 'gpt2' / 'target', tmp_path / 'hf')
  fields = json.loads((tmp_path / 'hf' / 'config.json').read_text()) | change
  fields = {k: v for k, v in fields.items() if v is not None or k not in change}
  (tmp_path / 'hf' / 'config.json').write_text(json.dumps(fields))
  with pytest.raises(CheckpointError, match=message):
    import_checkpoint(tmp_path / 'hf', tmp_path / 'model', 'huggingface')
  assert not (tmp_path / 'model').exists()
