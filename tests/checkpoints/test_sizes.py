"""T5X configurations read off shapes."""

import dataclasses

import pytest

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.sizes import config_from_leaves
from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import T5Config
from specdec_jax.models.known import known_config, known_names
from specdec_jax.models.parameters import parameter_shapes

T5_1_1_SMALL = T5Config(emb_dim=512, num_heads=6, mlp_dim=1024, num_encoder_layers=8,
                        num_decoder_layers=8)


def leaves_of(config):
  return {name: Leaf(shape, 'float32') for name, shape in parameter_shapes(config).items()}


@pytest.mark.parametrize('name', known_names(T5Config))
def test_every_known_size_is_read_back_off_its_shapes(name):
  config = known_config(name)
  found = config_from_leaves(leaves_of(config), 'here')
  untold = ['mlp_activations', 'eos_id', 'eos_ids', 'pad_id', 'decoder_start_id',
            *(['encoder_attention'] if config.encoder_attention == 'local' else [])]
  assert len(found.mlp_activations) == len(config.mlp_activations)
  assert dataclasses.replace(found, **{field: getattr(config, field) for field in untold}) == config


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
