"""A model as transformers has it: its parameters by the names of the files, and the fields of its configuration."""

from collections.abc import Callable
from typing import Any

import numpy as np

from specdec_jax.checkpoints.huggingface import gpt2, t5
from specdec_jax.checkpoints.huggingface.activation import theirs
from specdec_jax.errors import SettingError
from specdec_jax.models.config import GPT2Config, T5Config


def names(config: T5Config | GPT2Config) -> list[str]:
  """Of all parameters."""
  return gpt2.file_names(config) if isinstance(config, GPT2Config) else t5.file_names(config)


def own_paths(config: T5Config | GPT2Config, name: str) -> list[str]:
  """T5X's paths of what stands under a name: three for GPT-2's fused projection."""
  if isinstance(config, GPT2Config):
    return gpt2.own_names(name.removeprefix('transformer.'))
  path = t5.t5x_name(name, per_layer=config.relative_bias_per_layer)
  return [] if path is None else [path]


def shape(config: T5Config | GPT2Config, name: str, own: Callable[[str], tuple[int, ...]]) -> tuple[int, ...]:
  """Of what stands under a name, given the shape of a path."""
  paths = own_paths(config, name)
  found = own(paths[0])
  if isinstance(config, GPT2Config):
    return (*found[:-1], len(paths) * found[-1])
  return found[::-1] if t5.transposed(paths[0]) else found


def value(config: T5Config | GPT2Config, name: str, own: Callable[[str], np.ndarray]) -> np.ndarray:
  """What stands under a name, given the value of a path."""
  found = [own(path) for path in own_paths(config, name)]
  if isinstance(config, GPT2Config):
    return np.concatenate(found, axis=-1) if len(found) > 1 else found[0]
  path, = own_paths(config, name)
  return found[0].T if t5.transposed(path) else found[0]


def fields(config: T5Config | GPT2Config, rows: int) -> dict[str, Any]:
  """Of transformers' configuration of a model with so many rows.

  Raises:
    SettingError: activations that transformers has not.
  """
  return _gpt2_fields(config, rows) if isinstance(config, GPT2Config) else _t5_fields(config, rows)


def _gpt2_fields(config: GPT2Config, rows: int) -> dict[str, Any]:
  return {'vocab_size': rows, 'n_positions': config.max_positions, 'n_embd': config.emb_dim,
          'n_layer': config.num_layers, 'n_head': config.num_heads, 'n_inner': config.mlp_dim,
          'activation_function': theirs(config.activation),
          'layer_norm_epsilon': config.layer_norm_epsilon, 'eos_token_id': _eos(config),
          **dict.fromkeys(('resid_pdrop', 'embd_pdrop', 'attn_pdrop'), config.dropout_rate),
          'bos_token_id': config.eos_ids[0], 'pad_token_id': config.eos_ids[0]}


def _t5_fields(config: T5Config, rows: int) -> dict[str, Any]:
  activation, *gate = config.mlp_activations
  if gate not in ([], ['linear']):
    raise SettingError("transformers' T5 has one activation, gated or not; this model has "
                       f'{config.mlp_activations}.')
  tied = config.logits_via_embedding
  return {'vocab_size': rows, 'd_model': config.emb_dim, 'd_kv': config.head_dim, 'd_ff': config.mlp_dim,
          'num_layers': config.num_encoder_layers, 'num_decoder_layers': config.num_decoder_layers,
          'num_heads': config.num_heads, 'relative_attention_num_buckets': config.num_buckets,
          'relative_attention_max_distance': config.max_distance,
          'layer_norm_epsilon': config.layer_norm_epsilon, 'dropout_rate': config.dropout_rate,
          **_feed_forward(activation, bool(gate)),
          'tie_word_embeddings': tied, 'scale_decoder_outputs': tied and config.scale_tied_logits,
          'decoder_start_token_id': config.decoder_start_id, 'eos_token_id': _eos(config),
          'pad_token_id': config.pad_id, **t5.long_fields(config)}


def of_decoding(fields: dict[str, Any]) -> dict[str, Any]:
  """Those that belong to generation_config.json."""
  return {name: fields[name] for name in ('eos_token_id', 'pad_token_id', 'decoder_start_token_id') if name in fields}


def _feed_forward(activation: str, gated: bool) -> dict[str, Any]:
  """How transformers' T5Config names an activation; 'gated-gelu' is the tanh approximation there."""
  if not gated:
    return {'feed_forward_proj': theirs(activation)}
  if activation in ('gelu', 'gelu_exact'):
    return {'feed_forward_proj': 'gated-gelu', **({'dense_act_fn': 'gelu'} if activation == 'gelu_exact' else {})}
  return {'feed_forward_proj': f'gated-{theirs(activation)}'}


def _eos(config: T5Config | GPT2Config) -> int | list[int]:
  return config.eos_ids[0] if len(config.eos_ids) == 1 else list(config.eos_ids)
