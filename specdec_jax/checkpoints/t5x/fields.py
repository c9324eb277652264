"""A configuration as T5X's minimal network (t5x/examples/t5/network.py) has it."""

from typing import Any

from specdec_jax.errors import SettingError
from specdec_jax.models.config import T5Config

# What that network has no field for, and how it is built.
FIXED = {'relative_bias_per_layer': False, 'encoder_attention': 'full', 'scale_tied_logits': True, 'num_buckets': 32,
         'max_distance': 128, 'layer_norm_epsilon': 1e-6, 'decoder_start_id': 0, 'pad_id': 0}
_SAME = ('vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim', 'num_encoder_layers',
         'num_decoder_layers', 'mlp_activations', 'logits_via_embedding')


def differences(config: T5Config) -> list[str]:
  """'field = value (T5X: value)' of everything that T5X's network cannot be told."""
  fixed = dict(FIXED)
  if not config.logits_via_embedding:
    del fixed['scale_tied_logits']
  return [f'{name} = {getattr(config, name)} (T5X: {value})' for name, value in fixed.items()
          if getattr(config, name) != value]


def to_t5x(config: T5Config) -> dict[str, Any]:
  """Arguments of T5X's T5Config, dtype by its name; SettingError where its network is built otherwise."""
  other = differences(config)
  if other:
    raise SettingError(f"T5X's minimal network has no {', '.join(other)}; this model cannot be one of its.")
  return {**{name: getattr(config, name) for name in _SAME}, 'dtype': config.dtype, 'dropout_rate': 0.0}


def from_t5x(config: Any, **others: Any) -> T5Config:
  """The configuration of a network of T5X.

  Args:
    config: T5X's T5Config, or one of another network with the same fields.
    **others: fields that T5X's has not.

  Raises:
    SettingError: a field is missing, or has a value that is not known here.
  """
  missing = [name for name in _SAME if not hasattr(config, name)]
  if missing:
    raise SettingError(f"{type(config).__name__} has no {', '.join(missing)}; networks with the fields of T5X's "
                       'T5Config (t5x/examples/t5/network.py) are known.')
  import numpy as np
  values = {name: getattr(config, name) for name in _SAME}
  values['mlp_activations'] = tuple(values['mlp_activations'])
  return T5Config(**values, dtype=np.dtype(config.dtype).name, **others)
