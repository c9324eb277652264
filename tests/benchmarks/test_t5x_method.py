import numpy as np
import pytest

from specdec_jax.benchmarks.t5x_method import as_result
from specdec_jax.checkpoints.t5x.fields import to_t5x
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.models.config import T5Config
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling

SIZES = dict(emb_dim=32, num_heads=2, head_dim=16, mlp_dim=64, num_encoder_layers=1,
             num_decoder_layers=2)
LENGTH = 6


def test_tokens_are_counted_up_to_the_first_eos():
  result = as_result([[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 9, 1], [0, 4, 0, 1]], eos_id=1)
  assert result.lengths.tolist() == [2, 4, 2, 4]
  assert result.tokens.tolist() == [[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 0, 0], [0, 4, 0, 1]]
  assert result.status.tolist() == [Status.EOS, Status.LENGTH, Status.EOS, Status.EOS]
  assert result.stats.emitted.tolist() == result.stats.target_calls.tolist() == [2, 4, 2, 4]


def test_counts_agree_with_our_own_decode(target):
  tokens = target.encode(['the file is not valid', 'new window'])
  ours = autoregressive_decode(target, tokens, sampling=Sampling(temperature=0.0),
                               max_decode_len=LENGTH)
  counted = as_result(ours.tokens, target.eos_id)
  for name in ('tokens', 'lengths', 'status'):
    np.testing.assert_array_equal(getattr(counted, name), getattr(ours, name))


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
