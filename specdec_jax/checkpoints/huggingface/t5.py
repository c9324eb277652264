"""Hugging Face checkpoints of T5, mT5, UMT5 and LongT5: names, transposes, configuration."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

from specdec_jax.checkpoints.huggingface import activation, generation
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checkpoints.huggingface.weight_files import open_files
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checks import shown
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.models.config import T5Config

MODEL_TYPES = ('t5', 'mt5', 'umt5', 'longt5')
ALIASES = {'hidden_size': 'd_model', 'num_attention_heads': 'num_heads', 'num_hidden_layers': 'num_layers',
           'head_dim': 'd_kv'}
_LOGITS = 'decoder/logits_dense/kernel'

# Copies of the embedding, and an unused bias of early files.
_COPIES = ('encoder.embed_tokens.weight', 'decoder.embed_tokens.weight')
_UNUSED = 'decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight'
_SHARED = 'shared.weight'
_WHOLE = {_SHARED: 'token_embedder/embedding', 'lm_head.weight': _LOGITS,
          'encoder.final_layer_norm.weight': 'encoder/encoder_norm/scale',
          'decoder.final_layer_norm.weight': 'decoder/decoder_norm/scale'}
_LAYER = re.compile(r'(encoder|decoder)\.block\.(\d+)\.layer\.(\d)\.(.+)\.weight')
_NORMS = {'encoder': ('pre_attention_layer_norm', 'pre_mlp_layer_norm'),
          'decoder': ('pre_self_attention_layer_norm', 'pre_cross_attention_layer_norm',
                      'pre_mlp_layer_norm')}
_PROJECTIONS = {'q': 'query', 'k': 'key', 'v': 'value', 'o': 'out'}
# transformers' names of an encoder's self-attention, by ours of the kind.
_ENCODER_ATTENTIONS = {'full': 'SelfAttention', 'local': 'LocalSelfAttention',
                       'transient_global': 'TransientGlobalSelfAttention'}
_LONG = {'local': 'local', 'transient-global': 'transient_global'}  # by `encoder_attention_type`
_BIASES = {'relative_attention_bias': 'relpos_bias', 'global_relative_attention_bias': 'side_relpos_bias'}


class T5Reader:
  """See `readers.Reader`; kernels and relative biases are transposed to T5X's shapes."""

  def __init__(self, directory: epath.Path, fields: Fields, ignore: Sequence[str] = ()):
    self.source = str(directory)
    self._named = open_files(directory)
    per_layer = fields.get('model_type') == 'umt5'
    self._files, self.leaves = {}, {}
    for name, file in self._named.items():
      target = t5x_name(name, per_layer)
      if target is not None:
        leaf = file.leaves[name]
        self._files[target] = name, file
        shape = leaf.shape[::-1] if transposed(target) else leaf.shape
        self.leaves[target] = Leaf(shape, leaf.dtype)
    decoding = generation.read(directory, fields)
    self.notes = generation.notes(decoding, ignore)
    self.config, self.assumed = configuration(fields, decoding, tied=_LOGITS not in self.leaves)
    # Where the untied logits are scaled the factor goes into their kernel.
    untied_scaled = _LOGITS in self.leaves and self.config.scale_tied_logits
    self._logits_factor = np.float32(self.config.emb_dim ** -0.5) if untied_scaled else None

  def check_copies(self) -> None:
    """CheckpointError where the encoder or the decoder has an embedding of its own, which is not known here."""
    copies = [name for name in _COPIES if name in self._named]
    if not copies or _SHARED not in self._named:
      return
    shared = self._named[_SHARED].read(_SHARED)
    for name in copies:
      if not np.array_equal(self._named[name].read(name), shared, equal_nan=True):
        raise CheckpointError(f"'{name}' differs from '{_SHARED}' in '{self.source}'; only models whose encoder and "
                              'decoder share one embedding are known.')

  def read(self, path: str) -> np.ndarray:
    name, file = self._files[path]
    value = file.read(name)
    if path == _LOGITS and self._logits_factor is not None:
      value = value.astype(np.float32) * self._logits_factor
    return np.ascontiguousarray(value.T) if transposed(path) else value


def t5x_name(name: str, per_layer: bool) -> str | None:
  """T5X's path for a parameter's name in a Hugging Face file; None for superfluous copies.

  A name that isn't T5's is kept as it is, and is reported as superfluous later.
  """
  if name in (*_COPIES, _UNUSED):
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
  of_encoder = stack == 'encoder' and owner in _ENCODER_ATTENTIONS.values()
  if leaf in _BIASES and (of_encoder or owner == 'SelfAttention'):
    return f'{layer if per_layer else stack}/{_BIASES[leaf]}/rel_embedding'
  if of_encoder and leaf == 'global_input_layer_norm':
    return f'{layer}/attention/T5LayerNorm_0/scale'
  attention = 'attention' if of_encoder else {'SelfAttention': 'self_attention',
                                              'EncDecAttention': 'encoder_decoder_attention'}.get(owner)
  if attention is None or leaf not in _PROJECTIONS:
    return name
  return f'{layer}/{attention}/{_PROJECTIONS[leaf]}/kernel'


def file_names(config: T5Config) -> list[str]:
  """The names of a model's parameters in a Hugging Face file, which `t5x_name` reads."""
  names = [name for name, path in _WHOLE.items() if path != _LOGITS or not config.logits_via_embedding]
  projections = ('wi',) if len(config.mlp_activations) == 1 else ('wi_0', 'wi_1')
  for stack, layers in (('encoder', config.num_encoder_layers), ('decoder', config.num_decoder_layers)):
    own = _ENCODER_ATTENTIONS[config.encoder_attention] if stack == 'encoder' else 'SelfAttention'
    attentions = (own,) if stack == 'encoder' else (own, 'EncDecAttention')
    with_globals = stack == 'encoder' and config.encoder_attention == 'transient_global'
    for i in range(layers):
      block = f'{stack}.block.{i}.layer'
      for sub, owner in enumerate(attentions):
        names += [f'{block}.{sub}.{owner}.{part}.weight' for part in _PROJECTIONS]
      if i == 0 or config.relative_bias_per_layer:
        names += [f'{block}.0.{own}.{bias}.weight' for bias in list(_BIASES)[:1 + with_globals]]
      if with_globals:
        names.append(f'{block}.0.{own}.global_input_layer_norm.weight')
      names += [f'{block}.{len(attentions)}.DenseReluDense.{part}.weight' for part in (*projections, 'wo')]
      names += [f'{block}.{sub}.layer_norm.weight' for sub in range(len(attentions) + 1)]
  return names


def configuration(fields: Fields, decoding: Fields, tied: bool) -> tuple[T5Config, frozenset[str]]:
  """The T5Config that the files of a checkpoint amount to.

  Args:
    fields: of config.json.
    decoding: of the file that says how it is decoded; see `generation`.
    tied: whether the weights have no `lm_head` (what config.json says of it isn't reliable).

  Returns:
    The configuration, and the fields of it that nothing in the checkpoint says or that no program defines.

  Raises:
    CheckpointError: a field that is missing or wrong, or that says what T5Config cannot express.
  """
  kind = fields.get('model_type')
  for name, usual, why in (
      ('is_encoder_decoder', True, 'only encoder-decoders are known among T5s'),
      ('tie_encoder_decoder', False, 'an encoder that is the decoder is not known'),
      ('pruned_heads', {}, 'pruned heads are not known'),
      ('per_layer_config', {}, 'layers that differ are not known'),
      ('quantization_config', None, 'quantised checkpoints cannot be imported')):
    fields.require(name, usual, why)
  vocab_size = fields.whole('vocab_size')
  ids = generation.ids(decoding, vocab_size)
  layers, pad = fields.whole('num_layers'), ids.pad or 0
  try:
    config = T5Config(
        vocab_size=vocab_size, emb_dim=fields.whole('d_model'), num_heads=fields.whole('num_heads'),
        head_dim=fields.whole('d_kv'), mlp_dim=fields.whole('d_ff'), num_encoder_layers=layers,
        num_decoder_layers=fields.whole('num_decoder_layers', layers),
        mlp_activations=activation.of_t5(fields, 'relu' if kind in ('t5', 'longt5') else 'gated-gelu'),
        dropout_rate=fields.real('dropout_rate', 0.1), logits_via_embedding=tied,
        scale_tied_logits=_scales_logits(fields), relative_bias_per_layer=kind == 'umt5',
        num_buckets=fields.whole('relative_attention_num_buckets', 32),
        max_distance=fields.whole('relative_attention_max_distance', 128),
        layer_norm_epsilon=fields.real('layer_norm_epsilon', 1e-6),
        decoder_start_id=pad if ids.start is None else ids.start, eos_ids=ids.eos or (1,), pad_id=pad,
        **(_long_encoder(fields) if kind == 'longt5' else {}))
  except SettingError as e:
    raise fields.error(str(e)) from e
  given = {'decoder_start_id': ids.start is not None, 'eos_ids': bool(ids.eos), 'pad_id': ids.pad is not None}
  return config, frozenset(name for name, stated in given.items() if not stated)


def _long_encoder(fields: Fields) -> dict[str, Any]:
  """What LongT5's configuration says of its encoder."""
  kind = fields.text('encoder_attention_type', 'local')
  if kind not in _LONG:
    raise fields.error(f'encoder_attention_type is {shown(kind)}; known are {", ".join(_LONG)}')
  return {'encoder_attention': _LONG[kind], 'local_radius': fields.whole('local_radius', 127),
          'global_block_size': fields.whole('global_block_size', 16)}


def long_fields(config: T5Config) -> dict[str, Any]:
  """What transformers' LongT5Config has beside T5Config's fields."""
  kind = next((theirs for theirs, ours in _LONG.items() if ours == config.encoder_attention), None)
  return {} if kind is None else {'encoder_attention_type': kind, 'local_radius': config.local_radius,
                                  'global_block_size': config.global_block_size}


def _scales_logits(fields: Fields) -> bool:
  if fields.get('model_type') == 'mt5':
    return False
  tied = fields.flag('tie_word_embeddings', True)
  return fields.flag('scale_decoder_outputs', tied)


def transposed(path: str) -> bool:
  """Whether the file has a parameter of T5X's path the other way round."""
  return path.endswith(('/kernel', '/rel_embedding'))
