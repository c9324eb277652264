"""Every public family of T5, tiny: read from the files that it comes in, and decoded like transformers decoded it.

The fixtures and what wrote them are described in tests/fixtures/README.md; no test here needs transformers or torch.
"""

import functools
import json
import pathlib
import shutil

import jax
import numpy as np
import pytest

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.importer import import_checkpoint
from specdec_jax.data.examples import Example
from specdec_jax.decoding import speculative_decode
from specdec_jax.drafters.lookup import LookupDrafter
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import CheckpointError
from specdec_jax.jobs.batching import key_id
from specdec_jax.jobs.claims import claimed
from specdec_jax.models.network import network
from specdec_jax.runs.decode import decode
from specdec_jax.sampling import Sampling

FIXTURES = pathlib.Path(__file__).parents[1] / 'fixtures' / 'families'
GREEDY = Sampling(temperature=0.0)
LENGTH = 20
BY_MODEL = ('flan_t5', 'madlad400', 'pile_t5', 'long_t5_tglobal')  # the others' drafts are copied from what came before
# What the files say of each, beside sizes.
FIELDS = {
    'flan_t5': dict(mlp_activations=('gelu', 'linear'), logits_via_embedding=False, eos_ids=(1,), pad_id=0),
    'madlad400': dict(eos_ids=(2,), pad_id=1, decoder_start_id=0, logits_via_embedding=False),
    'ul2': dict(mlp_activations=('silu', 'linear'), logits_via_embedding=True, scale_tied_logits=True),
    'aya': dict(mlp_activations=('gelu', 'linear'), logits_via_embedding=False),
    'pile_t5': dict(relative_bias_per_layer=True, eos_ids=(2,), pad_id=0),
    'byt5': dict(num_encoder_layers=3, num_decoder_layers=1),
    'codet5': dict(mlp_activations=('relu',), logits_via_embedding=True, scale_tied_logits=True, eos_ids=(2,)),
    'uer': dict(decoder_start_id=51, eos_ids=(52,), pad_id=0),
    'chronos_t5': dict(mlp_activations=('relu',), logits_via_embedding=True, eos_ids=(1,)),
    'long_t5_local': dict(encoder_attention='local', local_radius=5, logits_via_embedding=False),
    'long_t5_tglobal': dict(encoder_attention='transient_global', local_radius=5, global_block_size=4),
}


@pytest.fixture(scope='module')
def models(tmp_path_factory):
  """models(family) -> target, a draft that agrees with it now and then, what transformers made."""
  folder = tmp_path_factory.mktemp('families')
  (folder / 'uer.gin').write_text('T5Config.eos_id = 52')  # which its files do not say

  @functools.cache
  def load(family):
    import_checkpoint(FIXTURES / family, folder / family, 'huggingface', note=lambda sentence: None,
                      gin_file=folder / 'uer.gin' if family == 'uer' else None)
    target = load_model(folder / family)
    rng = np.random.default_rng(0)
    jitter = lambda x: (x + 0.1 * np.std(x) * rng.normal(size=x.shape)).astype(x.dtype)
    return target, ModelDrafter(target.replace(params=jax.tree.map(jitter, target.params))), np.load(
        FIXTURES / family / 'expected.npz')
  return load


def wanted(texts, config):
  """int32 [B, 20], 0 after the end, and the lengths."""
  ends = np.isin(texts, config.eos_ids)
  lengths = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, LENGTH)
  return np.where(np.arange(LENGTH) < lengths[:, None], texts, 0), lengths


def test_every_family_has_its_fixture():
  assert FIELDS.keys() == {p.name for p in FIXTURES.iterdir()}


@pytest.mark.parametrize('family', FIELDS)
def test_every_token_of_transformers_is_the_most_probable(models, family):
  """Over its own texts, which makes them the greedy ones; op by op, since families share their shapes."""
  target, _, expected = models(family)
  config = target.config
  assert {name: getattr(config, name) for name in FIELDS[family]} == FIELDS[family]
  texts = expected['texts'].astype(np.int32)
  given = np.concatenate([np.full((3, 1), config.decoder_start_id, np.int32), texts[:, :-1]], axis=1)
  logits = np.asarray(network(config).apply({'params': target.params}, expected['inputs'].astype(np.int32), given))
  _, lengths = wanted(texts, config)
  behind = np.arange(LENGTH) >= lengths[:, None]
  np.testing.assert_array_equal(np.where(behind, texts, logits.argmax(axis=-1)), texts)
  first = logits[:, :expected['logits'].shape[1]]
  np.testing.assert_allclose(np.where(behind[:, :5, None], expected['logits'], first), expected['logits'], rtol=0,
                             atol=1e-4 * np.abs(expected['logits']).max())


def check_chain(models, family, gamma, row=slice(None)):
  target, draft, expected = models(family)
  tokens, lengths = wanted(expected['texts'], target.config)
  result = speculative_decode(target, draft if family in BY_MODEL else LookupDrafter(),
                              expected['inputs'][row].astype(np.int32), gamma=gamma, sampling=GREEDY,
                              max_decode_len=LENGTH)
  np.testing.assert_array_equal(result.tokens, tokens[row])
  np.testing.assert_array_equal(result.lengths, lengths[row])
  if family in BY_MODEL:
    assert 0 < result.stats.accepted.sum() < result.stats.drafted.sum()


def test_a_chain_decodes_what_transformers_decoded(models):
  check_chain(models, 'long_t5_tglobal', 3)


@pytest.mark.long
@pytest.mark.parametrize('gamma', range(1, 9))
@pytest.mark.parametrize('family', FIELDS)
def test_a_chain_of_every_family_at_every_gamma(models, family, gamma):
  check_chain(models, family, gamma)


def test_series_of_ids_are_sampled_in_a_job(models, tmp_path):
  """As for Chronos-T5: no text anywhere, several samples of each series, of the 50 likeliest values."""
  target, _, expected = models('chronos_t5')
  rows = [row[row > 0].tolist() for row in expected['inputs'].astype(int)]
  sampling = Sampling(temperature=1.0, top_k=50)
  with claimed(str(tmp_path / 'out'), {}):
    decode(str(tmp_path / 'out'), target, [Example(f's{i}', None, tokens=tuple(row)) for i, row in enumerate(rows)],
           LookupDrafter(), gamma=3, sampling=sampling, num_samples=4, max_decode_len=8, max_input_len=32, batch_size=2)
  lines = [json.loads(line) for line in (tmp_path / 'out' / 'predictions.jsonl').read_text().splitlines()]
  assert [line['input'] for line in lines] == rows
  drawn = speculative_decode(target, LookupDrafter(), expected['inputs'].astype(np.int32), gamma=3, sampling=sampling,
                             num_samples=4, max_decode_len=8, ids=[key_id(f's{i}') for i in range(len(rows))])
  found = [sample for line in lines for sample in line['samples']]
  assert [sample['tokens'] for sample in found] == [
      row[:n].tolist() for row, n in zip(drawn.tokens, drawn.lengths)]
  assert {sample['text'] for sample in found} == {None} and len({str(sample['tokens']) for sample in found}) > 6


# One way to damage a file of each format: cut, a changed byte of its structure, another file's name.
FILES = {'aya': 'model.safetensors', 'ul2': 'model-00002-of-00002.safetensors', 'byt5': 'flax_model.msgpack',
         'long_t5_tglobal': 'flax_model.msgpack'}


@pytest.fixture
def damaged(tmp_path):
  """damaged(family) -> a copy to write to, its file of weights."""
  def copy(family):
    shutil.copytree(FIXTURES / family, tmp_path / family)
    return tmp_path / family, tmp_path / family / FILES[family]
  return copy


def refused(folder, tmp_path):
  """The one line that an import ends with; nothing is left of it."""
  with pytest.raises(CheckpointError) as e:
    import_checkpoint(folder, tmp_path / 'model', 'huggingface', note=lambda sentence: None)
  assert not (tmp_path / 'model').exists()
  return str(e.value)


@pytest.mark.parametrize('family', FILES)
def test_a_file_that_is_cut_anywhere_is_refused(damaged, tmp_path, family):
  folder, file = damaged(family)
  whole = file.read_bytes()
  for size in (0, 1, 7, 100, len(whole) // 3, len(whole) // 2, len(whole) - 1):
    file.write_bytes(whole[:size])
    message = refused(folder, tmp_path)
    assert '\n' not in message and 'copy' in message and file.name in message, message


def test_a_changed_byte_of_the_structure_of_a_flax_file_is_refused(damaged, tmp_path):
  """Those of arrays alone cannot be told from others: their own files say nothing to check them with."""
  folder, file = damaged('byt5')
  whole, rng = file.read_bytes(), np.random.default_rng(0)
  places = [at for name in (b'kernel', b'block', b'bfloat16', b'DenseReluDense') for at in (
      whole.find(name), whole.find(name) - 1, whole.rfind(name) + 1)]
  places += [0, 1, 2, whole.find(b'bfloat16') - 3, whole.find(b'bfloat16') + 9]
  for at in places:
    changed = bytearray(whole)
    changed[at] ^= 1 << int(rng.integers(8))
    file.write_bytes(changed)
    message = refused(folder, tmp_path)
    assert len(message) < 5000 and 'Traceback' not in message


def test_a_flax_file_under_another_name_and_another_under_its(damaged, tmp_path):
  folder, file = damaged('byt5')
  file.rename(folder / 'model.safetensors')
  assert 'not a safetensors file' in refused(folder, tmp_path)
  (folder / 'model.safetensors').unlink()
  file.write_bytes((FIXTURES / 'aya' / 'model.safetensors').read_bytes())
  assert 'not a Flax file' in refused(folder, tmp_path)


def test_a_shard_of_another_checkpoint_is_refused(damaged, tmp_path):
  folder, file = damaged('ul2')
  shutil.copy(folder / 'model-00001-of-00002.safetensors', file)
  assert "lacks 'decoder.block" in refused(folder, tmp_path)
