"""Configurations: every field has a type and a range; a wrong value is one line that names it and the mend."""

import dataclasses
import json

import numpy as np
import pytest

from specdec_jax.errors import SettingError
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.config_checks import eos_difference

T5 = dict(vocab_size=128, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32, num_encoder_layers=2, num_decoder_layers=2)
GPT2 = dict(vocab_size=128, emb_dim=16, num_heads=2, num_layers=2, max_positions=32)
NO_SIZE = ['4', None, [4], 2.5, True, 0, -1, float('nan'), float('inf'), 10**9, 4 + 0j, T5Config]
NO_FLAG = ['True', 1, 0, None, []]
NO_RATE = ['0.1', None, [0.1], -0.1, 1.0, float('nan'), True]
NO_ID = ['1', None, [1], 1.5, True, -1, -4, 128, 10**9]

WRONG = [
    *[(T5Config, name, value) for value in NO_SIZE for name in (
        'vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers', 'num_decoder_layers',
        'num_buckets', 'max_distance')],
    *[(T5Config, 'num_buckets', value) for value in (1, 2, 3, 5, 33)],
    *[(T5Config, 'max_distance', value) for value in (1, 16)],  # of 32 buckets, 16 are exact
    *[(T5Config, name, value) for value in NO_FLAG for name in (
        'logits_via_embedding', 'scale_tied_logits', 'relative_bias_per_layer')],
    *[(T5Config, name, value) for value in NO_ID for name in ('decoder_start_id', 'pad_id')],
    *[(T5Config, 'mlp_activations', value) for value in (
        (), [], 'gelu', None, 3, ('gelu', 'foo'), (None,), ('GELU',), [['relu']])],
    *[(GPT2Config, name, value) for value in NO_SIZE for name in (
        'vocab_size', 'emb_dim', 'num_heads', 'num_layers', 'max_positions')],
    *[(GPT2Config, 'mlp_dim', value) for value in NO_SIZE if value != 0],
    *[(GPT2Config, 'emb_dim', 17), (GPT2Config, 'activation', 'foo'), (GPT2Config, 'activation', None)],
    *[(kind, name, value) for kind in (T5Config, GPT2Config) for name, values in (
        ('dropout_rate', NO_RATE), ('layer_norm_epsilon', [*NO_RATE, 0.0]),
        ('dtype', ['float16', 'bf16', None, 32, np.float32, ['float32']]),
        ('eos_id', [v for v in NO_ID if v is not None]),
        ('eos_ids', ['12', 5, None, (1.5,), ('1',), (True,), (-1,), (128,), (3, 3), (1, 2, 128)]),
        ('num_pieces', ['1', None, [1], 1.5, True, -1, 129, 10**9])) for value in values],
]


@pytest.mark.parametrize('kind, name, value', WRONG, ids=lambda x: getattr(x, '__name__', str(x)))
def test_a_wrong_value_is_refused_by_its_name(kind, name, value):
  with pytest.raises(SettingError) as error:
    kind(**{**(T5 if kind is T5Config else GPT2), name: value})
  message = str(error.value)
  assert '\n' not in message and len(message) < 250
  assert f'{kind.__name__}.{name}' in message or f'{kind.__name__}.eos_id' in message or (
      name == 'num_pieces' and 'has 129 pieces but the model only 128 rows' in message)
  assert any(word in message for word in ('must', 'use ', 'set ', 'divide', 'needs', 'is not the vocabulary'))


@pytest.mark.parametrize('kind, changes, message', [
    (T5Config, {'num_pieces': 100, 'eos_id': 100},
     'T5Config.eos_id is 100, but only ids 0 to 99 are decoded, so that it could end no text; set eos_id'),
    (T5Config, {'num_pieces': 100, 'eos_ids': (1, 127)}, "eos_ids have 127, but only ids 0 to 99 are decoded"),
    (T5Config, {'eos_id': 5, 'eos_ids': (1, 2)}, r'eos_id is 5, but eos_ids are \(1, 2\)'),
    (T5Config, {'eos_id': [1, 2]}, r'must be a whole number of at least 0 \(several go into eos_ids\)'),
    (T5Config, {'decoder_start_id': 10**9}, 'must be a whole number from 0 to 127, an id of the 128 rows'),
    (T5Config, {'dtype': 'float16'}, "overflows in the feed-forward layers of T5 v1.1; use 'float32' or 'bfloat16'"),
    (GPT2Config, {'emb_dim': 18, 'num_heads': 4}, 'emb_dim is 18, which 4 heads do not divide'),
])
def test_what_does_not_go_together(kind, changes, message):
  with pytest.raises(SettingError, match=message):
    kind(**{**(T5 if kind is T5Config else GPT2), **changes})


def test_absurd_sizes_are_refused_at_once():
  """Before anything grows with them."""
  for name in ('num_encoder_layers', 'num_decoder_layers'):
    with pytest.raises(SettingError, match=rf'T5Config.{name} is 1000000000; it must be a whole number from 1 to 1000'):
      T5Config(**{**T5, name: 10**9})


def test_what_numbers_may_look_like():
  """As JSON and NumPy give them; kept as Python's own, so that a configuration stays a key and becomes JSON."""
  config = T5Config(**{**T5, 'emb_dim': np.int64(16), 'mlp_dim': 32.0, 'eos_ids': [1, 3],
                       'dropout_rate': np.float32(0.5), 'logits_via_embedding': np.bool_(True),
                       'mlp_activations': ['gelu', 'linear']})
  assert config == T5Config(**{**T5, 'eos_ids': (1, 3), 'dropout_rate': 0.5, 'logits_via_embedding': True})
  assert hash(config) and T5Config(**json.loads(json.dumps(dataclasses.asdict(config)))) == config


@pytest.mark.parametrize('kind, changes, eos', [
    (T5Config, {}, (1,)), (T5Config, {'eos_id': 3}, (3,)), (T5Config, {'eos_ids': [4, 2]}, (4, 2)),
    (GPT2Config, {}, (127,)), (GPT2Config, {'num_pieces': 120}, (119,)), (GPT2Config, {'eos_id': 0}, (0,))])
def test_which_ids_end_a_text(kind, changes, eos):
  config = kind(**{**(T5 if kind is T5Config else GPT2), **changes})
  assert config.eos_ids == eos and config.eos_id == eos[0]
  other = dataclasses.replace(config, num_pieces=100, eos_id=5, eos_ids=())
  assert other.eos_ids == (5,)


def test_gpt2s_own_end_of_text():
  assert GPT2Config(emb_dim=16, num_heads=2, num_layers=1).eos_id == 50256


def test_an_end_of_text_that_is_not_the_vocabularys_is_said():
  class Pieces:
    eos_id = 1
    piece = staticmethod(lambda token: {1: '</s>', 2: '<2>'}[token])

  assert eos_difference(T5Config(**T5), Pieces) is None and eos_difference(T5Config(**T5), None) is None
  assert eos_difference(T5Config(**T5, eos_ids=(2, 1)), Pieces) is None
  found = eos_difference(T5Config(**T5, eos_id=2), Pieces)
  assert found.startswith("The configuration ends texts with 2 ('<2>'), the vocabulary with 1 ('</s>'): ")
