"""A model in transformers' own classes, in memory: to compare with, not to keep."""

import numpy as np
from flax import traverse_util

from specdec_jax.checkpoints.huggingface import gpt2, t5
from specdec_jax.checkpoints.huggingface.activation import theirs
from specdec_jax.errors import SettingError
from specdec_jax.model import Model


def to_transformers(model: Model):
  """`T5ForConditionalGeneration` or `GPT2LMHeadModel` with a copy of the weights in float32.

  Padding rows after the vocabulary are left out, since transformers would decode them.

  Raises:
    ImportError: torch or transformers is missing.
    ValueError: a variant that the class lacks.
  """
  try:
    import torch
    import transformers
  except ImportError as e:
    raise ImportError(f"torch and transformers are needed ({e}): pip install -e '.[huggingface]'") from e
  fields = gpt2_fields(model) if model.config.decoder_only else t5_fields(model)
  if model.config.decoder_only:
    made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**fields))
  else:
    made = transformers.T5ForConditionalGeneration(transformers.T5Config(**fields))
    if not fields['tie_word_embeddings']:  # its configuration ties them all the same
      made.lm_head.weight = torch.nn.Parameter(made.lm_head.weight.detach().clone())
    made.config.num_layers = fields['num_decoder_layers']  # `generate` sizes its cache by it
  with torch.no_grad():
    for name, parameter in made.named_parameters():
      parameter.copy_(torch.from_numpy(np.array(value(model, name), np.float32)))
  made.generation_config = transformers.GenerationConfig(
      **{n: fields[n] for n in ('eos_token_id', 'pad_token_id', 'decoder_start_token_id') if n in fields})
  return made.eval()


def value(model: Model, name: str) -> np.ndarray:
  """What transformers keeps under a parameter's name."""
  own = traverse_util.flatten_dict(model.params, sep='/')
  if model.config.decoder_only:
    paths = gpt2.own_names(name.removeprefix('transformer.'))
    found = np.concatenate([np.asarray(own[p]) for p in paths], axis=-1)
    return found[:model.num_tokens] if paths == ['token_embedder/embedding'] else found
  path = t5.t5x_name(name, per_layer=model.config.relative_bias_per_layer)
  found = np.asarray(own[path])
  if path.endswith(('/kernel', '/rel_embedding')):
    found = found.T
  return found[:model.num_tokens] if path.startswith(('token_embedder', 'decoder/logits_dense')) else found


def gpt2_fields(model: Model) -> dict:
  """Arguments of transformers' GPT2Config."""
  cfg = model.config
  return {'vocab_size': model.num_tokens, 'n_positions': cfg.max_positions, 'n_embd': cfg.emb_dim,
          'n_layer': cfg.num_layers, 'n_head': cfg.num_heads, 'n_inner': cfg.mlp_dim,
          'activation_function': theirs(cfg.activation),
          'layer_norm_epsilon': cfg.layer_norm_epsilon, 'eos_token_id': _eos(model),
          'bos_token_id': model.eos_id, 'pad_token_id': model.eos_id}


def t5_fields(model: Model) -> dict:
  """Arguments of transformers' T5Config."""
  cfg = model.config
  activation, *gate = cfg.mlp_activations
  if gate not in ([], ['linear']) or cfg.relative_bias_per_layer:
    where = 'in every layer' if cfg.relative_bias_per_layer else 'a stack'
    raise SettingError("transformers' T5 has one activation, gated or not, and one relative bias a stack; this "
                     f'model has {cfg.mlp_activations} and one {where}.')
  tied = cfg.logits_via_embedding
  return {'vocab_size': model.num_tokens, 'd_model': cfg.emb_dim, 'd_kv': cfg.head_dim, 'd_ff': cfg.mlp_dim,
          'num_layers': cfg.num_encoder_layers, 'num_decoder_layers': cfg.num_decoder_layers,
          'num_heads': cfg.num_heads, 'relative_attention_num_buckets': cfg.num_buckets,
          'relative_attention_max_distance': cfg.max_distance,
          'layer_norm_epsilon': cfg.layer_norm_epsilon, 'dropout_rate': 0.0,
          **_feed_forward(activation, bool(gate)),
          'tie_word_embeddings': tied, 'scale_decoder_outputs': tied and cfg.scale_tied_logits,
          'decoder_start_token_id': cfg.decoder_start_id, 'eos_token_id': _eos(model), 'pad_token_id': cfg.pad_id}


def _feed_forward(activation: str, gated: bool) -> dict:
  """How transformers' T5Config names an activation; 'gated-gelu' is the tanh approximation there."""
  if not gated:
    return {'feed_forward_proj': theirs(activation)}
  if activation in ('gelu', 'gelu_exact'):
    return {'feed_forward_proj': 'gated-gelu', **({'dense_act_fn': 'gelu'} if activation == 'gelu_exact' else {})}
  return {'feed_forward_proj': f'gated-{theirs(activation)}'}


def _eos(model: Model) -> int | list[int]:
  return model.eos_id if len(model.eos_ids) == 1 else list(model.eos_ids)
