"""T5X configurations read off shapes and gin files."""

import dataclasses
import pathlib

import pytest

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.sizes import config_from_leaves, fields_from_gin
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.parameters import parameter_shapes

MODELS = sorted((pathlib.Path(__file__).parents[2] / 'gin' / 'models').glob('*.gin'))
T5_1_1_SMALL = T5Config(emb_dim=512, num_heads=6, mlp_dim=1024, num_encoder_layers=8,
                        num_decoder_layers=8)


def leaves_of(config):
  return {name: Leaf(shape, 'float32') for name, shape in parameter_shapes(config).items()}


of_gpt2 = lambda file: 'GPT2Config' in file.read_text()


@pytest.mark.parametrize('file', [f for f in MODELS if not of_gpt2(f)], ids=lambda f: f.stem)
def test_every_size_in_gin_is_read_back_off_its_shapes(file):
  config = T5Config(**fields_from_gin(file))
  assert config_from_leaves(leaves_of(config), 'here') == config


@pytest.mark.parametrize('file', [f for f in MODELS if of_gpt2(f)], ids=lambda f: f.stem)
def test_every_gpt2_in_gin_is_a_configuration(file):
  config = GPT2Config(**fields_from_gin(file, 'GPT2Config'))
  assert config.mlp_dim == 4 * config.emb_dim and config.decoder_only


def test_known_sizes():
  assert {f.stem.split('_')[0] for f in MODELS} >= {'t5', 'mt5', 'umt5'} and len(MODELS) >= 20
  assert T5Config(**fields_from_gin(MODELS[0].with_name('t5_1_1_small.gin'))) == T5_1_1_SMALL
  config = T5Config(**fields_from_gin(MODELS[0].with_name('t5_1_0_11b.gin')))
  assert (config.num_heads, config.head_dim, config.mlp_dim) == (128, 128, 65536)
  assert config.mlp_activations == ('relu',) and config.logits_via_embedding


@pytest.mark.parametrize('changes', [
    {'logits_via_embedding': True}, {'mlp_activations': ('relu',)}, {'num_buckets': 16},
    {'num_encoder_layers': 2, 'num_decoder_layers': 11}, {'num_heads': 3, 'head_dim': 128}])
def test_shapes_of_unusual_models(changes):
  config = dataclasses.replace(T5_1_1_SMALL, **changes)
  assert config_from_leaves(leaves_of(config), 'here') == config


def test_trees_that_are_no_t5():
  leaves = leaves_of(T5_1_1_SMALL)
  kernel = 'decoder/layers_0/self_attention/query/kernel'
  with pytest.raises(CheckpointError, match='no parameter like'):
    config_from_leaves({n: leaf for n, leaf in leaves.items() if 'relpos' not in n}, 'here')
  with pytest.raises(CheckpointError, match='two dimensions'):
    config_from_leaves({**leaves, kernel: Leaf((512, 6, 64), 'float32')}, 'here')
  with pytest.raises(CheckpointError, match='does not divide'):
    config_from_leaves({**leaves, kernel: Leaf((512, 100), 'float32')}, 'here')


def test_gin_files(tmp_path):
  file = tmp_path / 'model.gin'
  file.write_text("some.other.setting = 3\nT5Config.emb_dim = 64\n"
                  "T5Config.mlp_activations = ('silu',)\n")
  assert fields_from_gin(file) == {'emb_dim': 64, 'mlp_activations': ('silu',)}
  for text, message in (('T5Config.emb_dmi = 3', 'emb_dmi'), ('other.x = 3', 'sets nothing'),
                        ('T5Config.emb_dim = = 3', 'model.gin')):
    file.write_text(text)
    with pytest.raises(CheckpointError, match=message) as caught:
      fields_from_gin(file)
    assert '\n' not in str(caught.value)
  with pytest.raises(CheckpointError, match='nothing.gin'):
    fields_from_gin(tmp_path / 'nothing.gin')
