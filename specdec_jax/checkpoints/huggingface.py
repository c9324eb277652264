"""Hugging Face checkpoints of T5, mT5 and UMT5: names, transposes, configuration."""

import os
import re

import numpy as np

from specdec_jax.checkpoints.huggingface_files import open_files, read_json
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import existing_directory
from specdec_jax.models.config import T5Config

_MODEL_TYPES = ('t5', 'mt5', 'umt5')
_ACTIVATIONS = {'relu': 'relu', 'gelu_new': 'gelu', 'gelu_pytorch_tanh': 'gelu',
                'silu': 'silu', 'swish': 'silu'}
_LOGITS = 'decoder/logits_dense/kernel'

# Copies of the embedding, and an unused bias of early files.
_IGNORED = re.compile(
    r'(encoder|decoder)\.embed_tokens\.weight'
    r'|decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight')
_WHOLE = {'shared.weight': 'token_embedder/embedding', 'lm_head.weight': _LOGITS,
          'encoder.final_layer_norm.weight': 'encoder/encoder_norm/scale',
          'decoder.final_layer_norm.weight': 'decoder/decoder_norm/scale'}
_LAYER = re.compile(r'(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.(.+)\.weight')
_NORMS = {'encoder': ('pre_attention_layer_norm', 'pre_mlp_layer_norm'),
          'decoder': ('pre_self_attention_layer_norm', 'pre_cross_attention_layer_norm',
                      'pre_mlp_layer_norm')}
_PROJECTIONS = {'q': 'query', 'k': 'key', 'v': 'value', 'o': 'out'}


class HuggingFaceReader:
  """See `readers.Reader`; kernels and relative biases are transposed to T5X's shapes.

  Attributes:
    config: the T5Config that config.json and the file's leaves amount to.
  """

  def __init__(self, path: str | os.PathLike):
    directory = existing_directory(path)
    self.source = str(directory)
    fields = read_json(directory / 'config.json')
    files = open_files(directory)
    per_layer = fields.get('model_type') == 'umt5'
    self._files, self.leaves = {}, {}
    for name, file in files.items():
      target = t5x_name(name, per_layer)
      if target is not None:
        leaf = file.leaves[name]
        self._files[target] = name, file
        shape = leaf.shape[::-1] if _transposed(target) else leaf.shape
        self.leaves[target] = Leaf(shape, leaf.dtype)
    self.config = config_from_huggingface(fields, tied=_LOGITS not in self.leaves)
    # Where the untied logits are scaled the factor goes into their kernel.
    untied_scaled = _LOGITS in self.leaves and _scales_logits(fields)
    self._logits_factor = np.float32(self.config.emb_dim ** -0.5) if untied_scaled else None

  def read(self, path: str) -> np.ndarray:
    name, file = self._files[path]
    value = file.read(name)
    if path == _LOGITS and self._logits_factor is not None:
      value = value.astype(np.float32) * self._logits_factor
    return np.ascontiguousarray(value.T) if _transposed(path) else value


def t5x_name(name: str, per_layer: bool) -> str | None:
  """T5X's path for a parameter's name in a Hugging Face file; None for superfluous copies.

  A name that isn't T5's is kept as it is, and is reported as superfluous later.
  """
  if _IGNORED.fullmatch(name):
    return None
  match = _LAYER.fullmatch(name)
  if match is None:
    return _WHOLE.get(name, name)
  stack, block, sub, part = match.groups()
  layer = f'{stack}/layers_{block}'
  owner, _, leaf = part.rpartition('.')
  if part == 'layer_norm' and int(sub) < len(_NORMS[stack]):
    return f'{layer}/{_NORMS[stack][int(sub)]}/scale'
  if owner == 'DenseReluDense':
    return f'{layer}/mlp/{leaf}/kernel'
  if owner == 'SelfAttention' and leaf == 'relative_attention_bias':
    return f'{layer if per_layer else stack}/relpos_bias/rel_embedding'
  attention = {'SelfAttention': 'attention' if stack == 'encoder' else 'self_attention',
               'EncDecAttention': 'encoder_decoder_attention'}.get(owner)
  if attention is None or leaf not in _PROJECTIONS:
    return name
  return f'{layer}/{attention}/{_PROJECTIONS[leaf]}/kernel'


def config_from_huggingface(fields: dict, tied: bool) -> T5Config:
  """The T5Config of a Hugging Face config.json.

  Args:
    fields: its content.
    tied: whether the file has no `lm_head` (what config.json says of it isn't reliable).

  Raises:
    CheckpointError: another kind of model, an activation that T5Config doesn't have,
      or a size that is not there.
  """
  model_type = fields.get('model_type')
  if model_type not in _MODEL_TYPES:
    raise CheckpointError(f"config.json is of a model of type '{model_type}'; "
                          f"known are {', '.join(_MODEL_TYPES)} and gpt2.")
  default = 'relu' if model_type == 't5' else 'gated-gelu'
  *gate, activation = fields.get('feed_forward_proj', default).split('-')
  if gate and activation == 'gelu':
    activation = 'gelu_new'
  if activation not in _ACTIVATIONS:
    raise CheckpointError(f"config.json: feed_forward_proj uses '{activation}'; "
                          f"known are {', '.join(_ACTIVATIONS)}.")
  try:
    return T5Config(
        vocab_size=fields['vocab_size'], emb_dim=fields['d_model'], num_heads=fields['num_heads'],
        head_dim=fields['d_kv'], mlp_dim=fields['d_ff'], num_encoder_layers=fields['num_layers'],
        num_decoder_layers=fields.get('num_decoder_layers') or fields['num_layers'],
        mlp_activations=(_ACTIVATIONS[activation],) + ('linear',) * bool(gate),
        dropout_rate=fields.get('dropout_rate', 0.1), logits_via_embedding=tied,
        scale_tied_logits=_scales_logits(fields), relative_bias_per_layer=model_type == 'umt5',
        num_buckets=fields.get('relative_attention_num_buckets', 32),
        max_distance=fields.get('relative_attention_max_distance', 128),
        layer_norm_epsilon=fields.get('layer_norm_epsilon', 1e-6),
        decoder_start_id=fields.get('decoder_start_token_id') or 0,
        eos_id=1 if fields.get('eos_token_id') is None else fields['eos_token_id'])
  except KeyError as e:
    raise CheckpointError(f'config.json has no {e}.') from e


def _scales_logits(fields: dict) -> bool:
  if fields['model_type'] == 'mt5':
    return False
  return bool(fields.get('scale_decoder_outputs', fields.get('tie_word_embeddings') is not False))


def _transposed(path: str) -> bool:
  return path.endswith(('/kernel', '/rel_embedding'))
