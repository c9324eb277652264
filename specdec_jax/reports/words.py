"""How reports name a model and a sampling."""

from specdec_jax.model import Model
from specdec_jax.sampling import Sampling


def model_name(model: Model) -> str:
  """'T5 (24 encoder and 24 decoder layers of width 4096, bfloat16)'."""
  cfg = model.config
  if cfg.decoder_only:
    return f'GPT-2 ({cfg.num_layers} layers of width {cfg.emb_dim}, {cfg.dtype})'
  return (f'T5 ({cfg.num_encoder_layers} encoder and {cfg.num_decoder_layers} decoder layers of '
          f'width {cfg.emb_dim}, {cfg.dtype})')


def sampling_name(sampling: Sampling) -> str:
  """'greedy', or 'temperature 0.7, top-k 5, top-p 0.9'."""
  name = 'greedy' if sampling.greedy else f'temperature {sampling.temperature:g}'
  name += f', top-k {sampling.top_k}' if sampling.top_k else ''
  return name + (f', top-p {sampling.top_p:g}' if sampling.top_p < 1 else '')
