"""Hugging Face checkpoints of GPT-2: names, the fused projection taken apart, configuration."""

import os
import re

import numpy as np

from specdec_jax.checkpoints.huggingface_files import open_files, read_json
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import existing_directory
from specdec_jax.models.config import GPT2Config

_ACTIVATIONS = {'gelu_new': 'gelu', 'gelu_pytorch_tanh': 'gelu', 'gelu_fast': 'gelu',
                'gelu': 'gelu_exact', 'relu': 'relu', 'silu': 'silu', 'swish': 'silu'}
# Causal masks of early files, and the copy of the embedding that logits are tied to.
_IGNORED = re.compile(r'h\.\d+\.attn\.(masked_)?bias|lm_head\.weight')
_WHOLE = {'wte.weight': 'token_embedder/embedding', 'wpe.weight': 'position_embedder/embedding',
          'ln_f.weight': 'decoder/decoder_norm/scale', 'ln_f.bias': 'decoder/decoder_norm/bias'}
_LAYER = re.compile(r'h\.(\d+)\.(.+)\.(weight|bias)')
_NORMS = {'ln_1': 'pre_attention_layer_norm', 'ln_2': 'pre_mlp_layer_norm'}
_PROJECTIONS = {'attn.c_proj': 'self_attention/out', 'mlp.c_fc': 'mlp/wi', 'mlp.c_proj': 'mlp/wo'}
_FUSED = 'attn.c_attn'


class GPT2Reader:
  """See `readers.Reader`; kernels are [in, out] in the file already.

  Attributes:
    config: the GPT2Config that config.json amounts to.
  """

  def __init__(self, path: str | os.PathLike):
    directory = existing_directory(path)
    self.source = str(directory)
    fields = read_json(directory / 'config.json')
    self.config = config_from_huggingface(fields)
    self._files, self.leaves = {}, {}
    for name, file in open_files(directory).items():
      leaf, plain = file.leaves[name], name.removeprefix('transformer.')
      if plain == 'lm_head.weight' and fields.get('tie_word_embeddings') is False:
        raise CheckpointError(f"'{directory}' has logits of its own (tie_word_embeddings is false); "
                              'only GPT-2 with tied logits is known.')
      for third, target in enumerate(own_names(plain)):
        fused = _FUSED in plain
        self._files[target] = name, file, third if fused else None
        width = leaf.shape[-1] // 3 if fused else leaf.shape[-1]
        self.leaves[target] = Leaf((*leaf.shape[:-1], width), leaf.dtype)

  def read(self, path: str) -> np.ndarray:
    name, file, third = self._files[path]
    value = file.read(name)
    if third is None:
      return value
    width = value.shape[-1] // 3
    return np.ascontiguousarray(value[..., third * width:(third + 1) * width])


def own_names(name: str) -> list[str]:
  """Paths of what a parameter of a Hugging Face file becomes: three for the fused projection.

  A name that isn't GPT-2's is kept as it is, and is reported as superfluous later.
  """
  if _IGNORED.fullmatch(name):
    return []
  match = _LAYER.fullmatch(name)
  if match is None:
    return [_WHOLE.get(name, name)]
  layer, part, leaf = f'decoder/layers_{match[1]}', match[2], match[3]
  if part in _NORMS:
    return [f"{layer}/{_NORMS[part]}/{'scale' if leaf == 'weight' else 'bias'}"]
  leaf = 'kernel' if leaf == 'weight' else 'bias'
  if part == _FUSED:
    return [f'{layer}/self_attention/{n}/{leaf}' for n in ('query', 'key', 'value')]
  return [f'{layer}/{_PROJECTIONS[part]}/{leaf}'] if part in _PROJECTIONS else [name]


def config_from_huggingface(fields: dict) -> GPT2Config:
  """The GPT2Config of a config.json; CheckpointError where GPT2Config cannot express it."""
  activation = fields.get('activation_function', 'gelu_new')
  if activation not in _ACTIVATIONS:
    raise CheckpointError(f"config.json: activation_function is '{activation}'; "
                          f"known are {', '.join(_ACTIVATIONS)}.")
  odd = [n for n, usual in (('scale_attn_weights', True), ('scale_attn_by_inverse_layer_idx', False),
                            ('add_cross_attention', False)) if fields.get(n, usual) != usual]
  if odd:
    raise CheckpointError(f"config.json: {odd[0]} is {fields[odd[0]]}; that variant of GPT-2 is not known.")
  try:
    eos = fields.get('eos_token_id')
    return GPT2Config(
        vocab_size=fields['vocab_size'], emb_dim=fields['n_embd'], num_heads=fields['n_head'],
        num_layers=fields['n_layer'], mlp_dim=fields.get('n_inner') or 0,
        max_positions=fields.get('n_positions', 1024), activation=_ACTIVATIONS[activation],
        dropout_rate=fields.get('resid_pdrop', 0.1),
        layer_norm_epsilon=fields.get('layer_norm_epsilon', 1e-5),
        eos_id=fields['vocab_size'] - 1 if eos is None else eos)
  except KeyError as e:
    raise CheckpointError(f'config.json has no {e}.') from e
