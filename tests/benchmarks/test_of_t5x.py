import pytest

from specdec_jax.checkpoints.t5x.fields import to_t5x
from specdec_jax.models.config import T5Config

SIZES = dict(emb_dim=32, num_heads=2, head_dim=16, mlp_dim=64, num_encoder_layers=1,
             num_decoder_layers=2)

def test_sizes_are_passed_on():
  fields = to_t5x(T5Config(mlp_activations=('relu',), **SIZES))
  assert {name: fields[name] for name in SIZES} == SIZES
  assert fields['mlp_activations'] == ('relu',) and fields['dropout_rate'] == 0
  assert fields['vocab_size'] == 32128 and fields['dtype'] == 'float32'


@pytest.mark.parametrize('change, message', [
    ({'num_buckets': 16}, r'num_buckets = 16 \(T5X: 32\)'),
    ({'relative_bias_per_layer': True, 'layer_norm_epsilon': 1e-5},
     r'relative_bias_per_layer = True .*, layer_norm_epsilon = 1e-05'),
])
def test_models_t5x_has_no_network_for_are_refused(change, message):
  with pytest.raises(ValueError, match=message):
    to_t5x(T5Config(**SIZES, **change))
