"""The sizes and conventions of a model: everything about it that is not a weight."""

import dataclasses

from specdec_jax import checks
from specdec_jax.errors import SettingError
from specdec_jax.models.activations import ACTIVATIONS


@dataclasses.dataclass(frozen=True, kw_only=True)
class T5Config:
  """Static description of a T5 encoder-decoder; names follow T5X's `T5Config`.

  Attributes:
    vocab_size: rows of the embedding and of the logits (padding rows included).
    emb_dim, num_heads, head_dim, mlp_dim: widths (d_model, heads, d_kv, d_ff).
    num_encoder_layers, num_decoder_layers: depths.
    mlp_activations: one name of `activations.ACTIVATIONS` per input projection; ('gelu', 'linear') is v1.1's
      gated GELU (tanh approximation), ('relu',) is v1.0.
    dropout_rate: used in training only.
    logits_via_embedding: logits come from the embedding table (v1.0).
    scale_tied_logits: tied logits are multiplied by emb_dim ** -0.5.
    relative_bias_per_layer: every layer has its own relative position bias (UMT5).
    num_buckets, max_distance: of the relative position bias.
    layer_norm_epsilon: added to the mean square.
    dtype: of weights and activations in a decode, 'float32' or 'bfloat16';
      logits, softmax and norms are float32 in either.
    decoder_start_id: the token that every decoder text starts with.
    eos_id, eos_ids: tokens that end a text; eos_id (1 by default) is the first of eos_ids. Either may be
      given alone.
    pad_id: padding of encoder inputs, which the encoder does not see. Where it is not 0, id 0 is a real token.
    num_pieces: ids of the vocabulary; 0 where it is not known. Rows from
      num_pieces to vocab_size are padding and never decoded.
  """

  vocab_size: int = 32128
  emb_dim: int
  num_heads: int
  head_dim: int = 64
  mlp_dim: int
  num_encoder_layers: int
  num_decoder_layers: int
  mlp_activations: tuple[str, ...] = ('gelu', 'linear')
  dropout_rate: float = 0.0
  logits_via_embedding: bool = False
  scale_tied_logits: bool = True
  relative_bias_per_layer: bool = False
  num_buckets: int = 32
  max_distance: int = 128
  layer_norm_epsilon: float = 1e-6
  dtype: str = 'float32'
  decoder_start_id: int = 0
  eos_id: int | None = None
  eos_ids: tuple[int, ...] = ()
  pad_id: int = 0
  num_pieces: int = 0

  def __post_init__(self):
    activations = checks.sequence('T5Config.mlp_activations', self.mlp_activations,
                                  lambda name, value: checks.choice(name, value, ACTIVATIONS))
    object.__setattr__(self, 'mlp_activations', activations)
    _set_eos(self, 1)
    _check(self, 'vocab_size', 'emb_dim', 'num_heads', 'head_dim', 'mlp_dim',
           'num_encoder_layers', 'num_decoder_layers', 'num_buckets', 'max_distance')

  @property
  def attention_dim(self) -> int:
    return self.num_heads * self.head_dim

  @property
  def decoder_only(self) -> bool:
    return False


@dataclasses.dataclass(frozen=True, kw_only=True)
class GPT2Config:
  """Static description of a GPT-2: learned positions, pre-norm, biases, tied logits.

  Attributes:
    vocab_size: rows of the embedding and of the logits (padding rows included).
    emb_dim, num_heads, mlp_dim, num_layers: sizes; mlp_dim 0 is 4 emb_dim.
    max_positions: the longest text, prompt included.
    activation: a name of `activations.ACTIVATIONS`: 'gelu' (tanh approximation, GPT-2's own), 'gelu_exact', ...
    dropout_rate: used in training only.
    layer_norm_epsilon: added to the variance.
    dtype, eos_id (50256 by default), eos_ids, num_pieces: as in `T5Config`; any id may be a real one, 0 included.
  """

  vocab_size: int = 50257
  emb_dim: int
  num_heads: int
  num_layers: int
  mlp_dim: int = 0
  max_positions: int = 1024
  activation: str = 'gelu'
  dropout_rate: float = 0.0
  layer_norm_epsilon: float = 1e-5
  dtype: str = 'float32'
  eos_id: int | None = None
  eos_ids: tuple[int, ...] = ()
  num_pieces: int = 0

  def __post_init__(self):
    _set_eos(self, 50256)
    object.__setattr__(self, 'mlp_dim', self.mlp_dim or 4 * self.emb_dim)
    _check(self, 'vocab_size', 'emb_dim', 'num_heads', 'num_layers', 'mlp_dim', 'max_positions')
    if self.emb_dim % self.num_heads:
      raise SettingError(f'GPT2Config.emb_dim is {self.emb_dim}, which {self.num_heads} heads do not divide.')
    checks.choice('GPT2Config.activation', self.activation, ACTIVATIONS)

  @property
  def head_dim(self) -> int:
    return self.emb_dim // self.num_heads

  @property
  def num_decoder_layers(self) -> int:
    return self.num_layers

  @property
  def logits_via_embedding(self) -> bool:
    return True

  @property
  def decoder_only(self) -> bool:
    return True


def _set_eos(config, default: int) -> None:
  """Makes eos_id and eos_ids agree where one of them is given; SettingError where they contradict each other."""
  ids = tuple(config.eos_ids)
  eos_id = config.eos_id if config.eos_id is not None else ids[0] if ids else default
  if len(ids) < 2:
    ids = (eos_id,)  # what `dataclasses.replace(config, eos_id=...)` leaves of a single one
  if ids[0] != eos_id:
    raise SettingError(f'{type(config).__name__}.eos_id is {eos_id}, but eos_ids are {ids}: eos_id must be the '
                       'first of them; give both.')
  object.__setattr__(config, 'eos_id', eos_id)
  object.__setattr__(config, 'eos_ids', ids)


def _check(config, *sizes: str) -> None:
  name = type(config).__name__
  if config.dtype not in ('float32', 'bfloat16'):
    raise SettingError(f"{name}.dtype is '{config.dtype}'; use 'float32' or 'bfloat16' "
                     '(float16 overflows in the feed-forward layers of T5 v1.1).')
  for size in sizes:
    if getattr(config, size) < 1:
      raise SettingError(f'{name}.{size} is {getattr(config, size)}; it must be at least 1.')
  if not 0 <= config.num_pieces <= config.vocab_size:
    raise SettingError(f'The vocabulary has {config.num_pieces} pieces but the model only '
                     f'{config.vocab_size} rows; this is not the vocabulary of this model.')
