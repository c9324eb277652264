"""Partition rules: every parameter has one, and none is split where it does not divide."""

import jax
import pytest
from jax.sharding import AbstractMesh, PartitionSpec as P

from specdec_jax.models.config import GPT2Config
from specdec_jax.models.parameters import parameter_shapes
from specdec_jax.parallel import partition
from specdec_jax.tpu.shapes import abstract_model

MODELS = ('t5_1_1_xxl', 't5_1_1_small', 't5_1_0_11b', 'umt5_xxl')


def specs(name, size):
  config = abstract_model(name).config
  mesh = AbstractMesh((1, size), ('data', 'model'))
  return {path: (shape, partition.spec(path, shape, config.num_heads, mesh))
          for path, shape in parameter_shapes(config).items()}


@pytest.mark.parametrize('name', MODELS)
@pytest.mark.parametrize('size', [1, 4, 8])
def test_every_parameter_has_a_rule_that_divides(name, size):
  for path, (shape, spec) in specs(name, size).items():
    assert len(spec) <= len(shape), path
    for length, axis in zip(shape, spec):
      assert axis is None or length % size == 0, path


def test_kernels_follow_t5x_s_axes():
  found = {path: spec for path, (_, spec) in specs('t5_1_1_xxl', 4).items()}
  layer = 'decoder/layers_3/'
  for path, expected in {
      layer + 'self_attention/query/kernel': P(None, 'model'),
      layer + 'encoder_decoder_attention/out/kernel': P('model', None),
      layer + 'mlp/wi_1/kernel': P(None, 'model'), layer + 'mlp/wo/kernel': P('model', None),
      'token_embedder/embedding': P('model', None),
      'decoder/logits_dense/kernel': P(None, 'model'), 'encoder/encoder_norm/scale': P()}.items():
    assert found[path] == expected, path
  assert sum(spec == P() for spec in found.values()) == 24 * 2 + 24 * 3 + 2  # the norms alone


def test_gpt2_s_axes():
  config = GPT2Config(emb_dim=32, num_heads=4, num_layers=1, vocab_size=50257)
  mesh = AbstractMesh((1, 4), ('data', 'model'))
  found = {path: partition.spec(path, shape, 4, mesh) for path, shape in parameter_shapes(config).items()}
  layer = 'decoder/layers_0/'
  for path, expected in {
      layer + 'self_attention/query/bias': P('model'), layer + 'self_attention/out/kernel': P('model', None),
      layer + 'self_attention/out/bias': P(), layer + 'mlp/wi/bias': P('model'), layer + 'mlp/wo/bias': P(),
      layer + 'pre_mlp_layer_norm/bias': P(), 'position_embedder/embedding': P(),
      'token_embedder/embedding': P()}.items():  # 50,257 rows do not divide
    assert found[path] == expected, path


def test_heads_are_not_cut():
  """T5-small has 6 heads: 384 columns divide by 4, its heads do not."""
  found = {path: spec for path, (_, spec) in specs('t5_1_1_small', 4).items()}
  assert found['decoder/layers_0/self_attention/query/kernel'] == P()
  assert found['decoder/layers_0/mlp/wi_0/kernel'] == P(None, 'model')


def test_a_device_holds_its_share():
  model = abstract_model('t5_1_1_small')
  mesh = partition.make_mesh(jax.devices()[:1])
  assert partition.device_bytes(partition.with_shardings(model, mesh).params) == sum(
      x.size * x.dtype.itemsize for x in jax.tree.leaves(model.params))


def test_mistakes():
  mesh = AbstractMesh((1, 2), ('data', 'model'))
  with pytest.raises(ValueError, match="No partition rule for the parameter 'decoder/new/thing'"):
    partition.spec('decoder/new/thing', (4, 4), 2, mesh)
  with pytest.raises(ValueError, match='data = 3 equal parts'):
    partition.make_mesh(range(4), data=3)
