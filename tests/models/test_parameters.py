"""Shapes of parameters: those of a whole trace of the network, for every family and depth."""

import jax
import jax.numpy as jnp
import pytest
from flax import traverse_util

from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.network import network
from specdec_jax.models.parameters import check_parameters, is_matrix, parameter_shapes

T5 = dict(vocab_size=24, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=12, num_encoder_layers=3, num_decoder_layers=2,
          num_buckets=4, max_distance=8)


@pytest.mark.parametrize('config', [
    T5Config(**T5), T5Config(**T5, mlp_activations=('relu',), logits_via_embedding=True),
    T5Config(**T5, relative_bias_per_layer=True), T5Config(**T5, mlp_activations=('gelu', 'linear', 'relu')),
    GPT2Config(vocab_size=24, emb_dim=8, num_heads=2, num_layers=3, max_positions=6)],
    ids=['v1.1', 'v1.0', 'umt5', 'three activations', 'gpt2'])
def test_shapes_are_the_networks(config):
  token = jnp.zeros((1, 1), jnp.int32)
  inputs = (token,) if config.decoder_only else (token, token)
  made = jax.eval_shape(network(config).init, jax.random.key(0), *inputs)['params']
  assert parameter_shapes(config) == {
      path: leaf.shape for path, leaf in traverse_util.flatten_dict(made, sep='/').items()}


def test_which_are_matrices():
  shapes = parameter_shapes(T5Config(**T5))
  assert {path.rsplit('/', 1)[1] for path, shape in shapes.items() if is_matrix(path, shape)} == {'kernel', 'embedding'}


def test_all_differences_are_listed():
  config = T5Config(**T5)
  found = parameter_shapes(config)
  del found['encoder/encoder_norm/scale']
  found['decoder/logits_dense/kernel'] = (24, 8)
  found['extra'] = (3,)
  with pytest.raises(CheckpointError) as error:
    check_parameters(found, config, 'here')
  message = str(error.value)
  assert '3 differences' in message and 'missing: encoder/encoder_norm/scale [8]' in message
  assert 'superfluous: extra [3]' in message
  assert 'decoder/logits_dense/kernel is [24, 8], the model needs [8, 24]' in message
  assert parameter_shapes(config)['encoder/encoder_norm/scale'] == (8,)  # what was handed out was a copy
