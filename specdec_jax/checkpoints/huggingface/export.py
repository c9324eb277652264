"""A model in transformers' own classes, in memory: to compare with, not to keep."""

import numpy as np
from flax import traverse_util

from specdec_jax.checkpoints.huggingface import layout
from specdec_jax.errors import SettingError
from specdec_jax.model import Model


def to_transformers(model: Model):
  """`T5ForConditionalGeneration` or `GPT2LMHeadModel` with a copy of the weights in float32.

  Padding rows after the vocabulary are left out, since transformers would decode them.

  Raises:
    ImportError: torch or transformers is missing.
    SettingError: a variant that the class lacks.
  """
  try:
    import torch
    import transformers
  except ImportError as e:
    raise ImportError(f"torch and transformers are needed ({e}): pip install -e '.[huggingface]'") from e
  fields = fields_of(model)
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
  made.generation_config = transformers.GenerationConfig(**layout.of_decoding(fields))
  return made.eval()


def value(model: Model, name: str) -> np.ndarray:
  """What transformers keeps under a parameter's name, without padding rows."""
  own = traverse_util.flatten_dict(model.params, sep='/')
  found = layout.value(model.config, name, lambda path: np.asarray(own[path]))
  rows = layout.own_paths(model.config, name)[0].startswith(('token_embedder', 'decoder/logits_dense'))
  return found[:model.num_tokens] if rows else found


def fields_of(model: Model) -> dict:
  """Arguments of transformers' T5Config or GPT2Config."""
  config = model.config
  if not config.decoder_only and (config.relative_bias_per_layer or config.encoder_attention != 'full'):
    raise SettingError("transformers' T5 has one relative bias a stack and an encoder that sees the whole text; this "
                       'model has not. specdec_jax export --format=huggingface writes it for transformers.')
  return layout.fields(model.config, model.num_tokens)
