"""Hugging Face checkpoints of GPT-2: names, the fused projection taken apart, configuration."""

import re
from collections.abc import Sequence

import numpy as np
from etils import epath

from specdec_jax.checkpoints.huggingface import activation, generation
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checkpoints.huggingface.weight_files import open_files
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.models.config import GPT2Config

ALIASES = {'hidden_size': 'n_embd', 'max_position_embeddings': 'n_positions', 'num_attention_heads': 'n_head',
           'num_hidden_layers': 'n_layer'}
_HEAD, _EMBEDDING = 'lm_head.weight', 'wte.weight'
# Causal masks of early files, and the copy of the embedding that logits are tied to.
_IGNORED = re.compile(rf'h\.\d+\.attn\.(masked_)?bias|{re.escape(_HEAD)}')
_WHOLE = {_EMBEDDING: 'token_embedder/embedding', 'wpe.weight': 'position_embedder/embedding',
          'ln_f.weight': 'decoder/decoder_norm/scale', 'ln_f.bias': 'decoder/decoder_norm/bias'}
_LAYER = re.compile(r'h\.(\d+)\.(.+)\.(weight|bias)')
_NORMS = {'ln_1': 'pre_attention_layer_norm', 'ln_2': 'pre_mlp_layer_norm'}
_PROJECTIONS = {'attn.c_proj': 'self_attention/out', 'mlp.c_fc': 'mlp/wi', 'mlp.c_proj': 'mlp/wo'}
_FUSED = 'attn.c_attn'


class GPT2Reader:
  """See `readers.Reader`; kernels are [in, out] in the file already."""

  def __init__(self, directory: epath.Path, fields: Fields, ignore: Sequence[str] = ()):
    self.source = str(directory)
    decoding = generation.read(directory, fields)
    self.notes = generation.notes(decoding, ignore)
    self.config, self.assumed = configuration(fields, decoding)
    self._files, self.leaves = {}, {}
    self._named = {name.removeprefix('transformer.'): (name, file) for name, file in open_files(directory).items()}
    for plain, (name, file) in self._named.items():
      leaf, fused = file.leaves[name], _FUSED in plain
      if fused and (not leaf.shape or leaf.shape[-1] % 3):
        raise CheckpointError(f"'{name}' in '{directory}' is {list(leaf.shape)}: its last axis is not query, key and "
                              'value of one width.')
      shape = (*leaf.shape[:-1], leaf.shape[-1] // 3) if fused else leaf.shape
      for third, target in enumerate(own_names(plain)):
        self._files[target] = name, file, third if fused else None
        self.leaves[target] = Leaf(shape, leaf.dtype)

  def check_copies(self) -> None:
    """CheckpointError where the logits have weights of their own; config.json may say tied all the same."""
    if _HEAD in self._named and _EMBEDDING in self._named:
      head, embedding = (file.read(name) for name, file in (self._named[_HEAD], self._named[_EMBEDDING]))
      if not np.array_equal(head, embedding, equal_nan=True):
        raise CheckpointError(f"'{_HEAD}' differs from '{_EMBEDDING}' in '{self.source}': the logits have weights of "
                              'their own, and only GPT-2 with tied logits is known.')

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


def file_names(config: GPT2Config) -> list[str]:
  """The names of a model's parameters in a Hugging Face file, which `own_names` reads."""
  parts = [*_NORMS, _FUSED, *_PROJECTIONS]
  return [f'transformer.{name}' for name in (
      *_WHOLE, *(f'h.{i}.{part}.{leaf}' for i in range(config.num_layers) for part in parts
                 for leaf in ('weight', 'bias')))]


def configuration(fields: Fields, decoding: Fields) -> tuple[GPT2Config, frozenset[str]]:
  """The GPT2Config that the files of a checkpoint amount to, and the fields of it that nothing there says.

  Args:
    fields: of config.json.
    decoding: of the file that says how it is decoded; see `generation`.

  Raises:
    CheckpointError: a field that is missing or wrong, or that says what GPT2Config cannot express.
  """
  unknown = 'that variant of GPT-2 is not known'
  for name, usual, why in (
      ('scale_attn_weights', True, unknown), ('scale_attn_by_inverse_layer_idx', False, unknown),
      ('add_cross_attention', False, unknown), ('is_encoder_decoder', False, unknown), ('pruned_heads', {}, unknown),
      ('per_layer_config', {}, unknown), ('quantization_config', None, 'quantised checkpoints cannot be imported')):
    fields.require(name, usual, why)
  vocab_size, width = fields.whole('vocab_size'), fields.whole('n_embd')
  eos = generation.ids(decoding, vocab_size).eos
  try:
    config = GPT2Config(
        vocab_size=vocab_size, emb_dim=width, num_heads=fields.whole('n_head'), num_layers=fields.whole('n_layer'),
        mlp_dim=fields.whole('n_inner', 4 * width), max_positions=fields.whole('n_positions', 1024),
        activation=activation.of_gpt2(fields), dropout_rate=fields.real('resid_pdrop', 0.1),
        layer_norm_epsilon=fields.real('layer_norm_epsilon', 1e-5), eos_ids=eos or (vocab_size - 1,))
  except SettingError as e:
    raise fields.error(str(e)) from e
  return config, frozenset() if eos else frozenset({'eos_ids'})

