"""The sizes and conventions of a model: everything about it that is not a weight."""

import dataclasses

from specdec_jax import checks
from specdec_jax.errors import SettingError
from specdec_jax.models import config_checks


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
    encoder_attention: 'full', or LongT5's 'local' or 'transient_global' (see `longt5`).
    local_radius: how far a token of LongT5's encoder sees on either side.
    global_block_size: tokens that make one of LongT5's global tokens.
    layer_norm_epsilon: added to the mean square.
    dtype: of weights and activations in a decode, 'float32' or 'bfloat16';
      logits, softmax and norms are float32 in either.
    int8_weights: kernels and embedding are int8 in memory, with a scale for each output channel (see `projections`);
      such a model is one of its own, with its own distribution, and cannot be trained.
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
  encoder_attention: str = 'full'
  local_radius: int = 127
  global_block_size: int = 16
  layer_norm_epsilon: float = 1e-6
  dtype: str = 'float32'
  int8_weights: bool = False
  decoder_start_id: int = 0
  eos_id: int | None = None
  eos_ids: tuple[int, ...] = ()
  pad_id: int = 0
  num_pieces: int = 0

  def __post_init__(self):
    config_checks.set_eos(self, 1)
    config_checks.check_fields(self, {
        'vocab_size': config_checks.rows, 'emb_dim': config_checks.width, 'num_heads': config_checks.width,
        'head_dim': config_checks.width, 'mlp_dim': config_checks.width, 'num_encoder_layers': config_checks.layers,
        'num_decoder_layers': config_checks.layers, 'mlp_activations': config_checks.activations,
        'dropout_rate': config_checks.rate, 'logits_via_embedding': checks.flag, 'scale_tied_logits': checks.flag,
        'relative_bias_per_layer': checks.flag, 'num_buckets': config_checks.num_buckets,
        'max_distance': config_checks.between(1, config_checks.MOST_POSITIONS),
        'encoder_attention': config_checks.encoder_attention,
        'local_radius': config_checks.between(1, config_checks.MOST_POSITIONS),
        'global_block_size': config_checks.between(1, config_checks.MOST_POSITIONS),
        'layer_norm_epsilon': config_checks.epsilon, 'dtype': config_checks.dtype, 'int8_weights': checks.flag,
        'num_pieces': config_checks.between(0, config_checks.MOST_ROWS)})
    if self.max_distance <= self.num_buckets // 2:  # distances below have buckets of their own
      raise SettingError(f'T5Config.max_distance is {self.max_distance}; it must be above {self.num_buckets // 2}, '
                         'half of num_buckets.')
    if self.relative_bias_per_layer and self.encoder_attention != 'full':
      raise SettingError(f'T5Config.encoder_attention is {self.encoder_attention!r}, which has one relative bias for '
                         'all layers; relative_bias_per_layer must be False.')
    config_checks.check_ids(self, ('decoder_start_id', 'pad_id'))

  @property
  def description(self) -> str:
    name = {'full': 'T5', 'local': 'LongT5', 'transient_global': 'LongT5 with global tokens'}[self.encoder_attention]
    return (f'{name} ({self.num_encoder_layers} encoder and {self.num_decoder_layers} decoder layers of '
            f'width {self.emb_dim}, {config_checks.numbers(self)})')

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
    dtype, int8_weights, eos_id (the last id by default: 50256 in GPT-2), eos_ids, num_pieces: as in `T5Config`; any
      id may be a real one, 0 included.
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
  int8_weights: bool = False
  eos_id: int | None = None
  eos_ids: tuple[int, ...] = ()
  num_pieces: int = 0

  def __post_init__(self):
    config_checks.check_fields(self, {
        'vocab_size': config_checks.rows, 'emb_dim': config_checks.width, 'num_heads': config_checks.width,
        'num_layers': config_checks.layers, 'mlp_dim': config_checks.between(0, config_checks.MOST_WIDTH),
        'max_positions': config_checks.between(1, config_checks.MOST_POSITIONS),
        'activation': config_checks.activation, 'dropout_rate': config_checks.rate,
        'layer_norm_epsilon': config_checks.epsilon, 'dtype': config_checks.dtype, 'int8_weights': checks.flag,
        'num_pieces': config_checks.between(0, config_checks.MOST_ROWS)})
    config_checks.set_eos(self, (self.num_pieces or self.vocab_size) - 1)
    object.__setattr__(self, 'mlp_dim', self.mlp_dim or 4 * self.emb_dim)
    if self.emb_dim % self.num_heads:
      raise SettingError(f'GPT2Config.emb_dim is {self.emb_dim}, which {self.num_heads} heads do not divide.')
    config_checks.check_ids(self, ())

  @property
  def description(self) -> str:
    return f'GPT-2 ({self.num_layers} layers of width {self.emb_dim}, {config_checks.numbers(self)})'

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
  def pad_id(self) -> int:
    """Of prompts, whose lengths tell it from tokens."""
    return 0

  @property
  def decoder_only(self) -> bool:
    return True
