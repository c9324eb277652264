"""A model as the decoding loop sees it: weights, sizes and vocabulary in one pytree."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct

from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import SettingError
from specdec_jax.models import cache as cache_lib
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.network import network


class Model(struct.PyTreeNode):
  """A T5 or GPT-2 with its weights; passes through `jax.jit` as an argument.

  Attributes:
    params: the weights, a pytree; with T5X's names in a T5.
    config: sizes and conventions (static).
    vocabulary: the tokenizer, or None where it is not known (static).
  """

  params: Any
  config: T5Config | GPT2Config = struct.field(pytree_node=False)
  vocabulary: Vocabulary | None = struct.field(pytree_node=False, default=None)

  @property
  def num_tokens(self) -> int:
    """Ids that may be decoded: the configuration's count (pieces and T5's sentinels), else the
    vocabulary's pieces, or every row where neither is known."""
    if self.config.num_pieces or self.vocabulary is None:
      return self.config.num_pieces or self.config.vocab_size
    return self.vocabulary.size

  @property
  def eos_id(self) -> int:
    """The first of `eos_ids`."""
    return self.config.eos_id

  @property
  def eos_ids(self) -> tuple[int, ...]:
    """The tokens that end a text, whichever comes first."""
    return self.config.eos_ids

  def encode(self, texts: list[str]) -> np.ndarray:
    """Texts -> int32 [B, S], 0-padded on the right to the longest; an encoder's end in EOS."""
    return self._tokenizer().encode_batch(texts)

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """The rows of `encode`, not padded; for many texts."""
    return self._tokenizer().encode_rows(texts)

  def prompts(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Texts -> int32 [B, P] and [B]: a decoder-only model's prompts, and the `lengths` of each."""
    if not self.config.decoder_only:
      raise SettingError('This model has an encoder: its inputs are made by encode, without lengths.')
    return self._tokenizer().encode_prompts(texts)

  def decode(self, tokens) -> list[str]:
    """int [B, L] -> texts; what stands behind EOS is left out."""
    return [self._tokenizer().decode(row) for row in np.asarray(tokens)]

  def logits(self, encoder_tokens=None, decoder_tokens=None) -> jax.Array:
    """Teacher-forced raw logits: int32 [B, S] and [B, T] -> float32 [B, T, V].

    A decoder-only model takes decoder_tokens alone.
    """
    decoder_tokens = self.check_tokens(decoder_tokens, 'decoder_tokens')
    if self.config.decoder_only:
      if encoder_tokens is not None:
        raise SettingError('A decoder-only model has no encoder: leave encoder_tokens out.')
      return _logits(self, decoder_tokens)
    encoder_tokens = self.check_tokens(encoder_tokens, 'encoder_tokens')
    if len(encoder_tokens) != len(decoder_tokens):
      raise SettingError(f'encoder_tokens has {len(encoder_tokens)} rows, '
                       f'decoder_tokens {len(decoder_tokens)}; they must agree.')
    return _logits(self, encoder_tokens, decoder_tokens)

  def prefill(self, tokens, cache_length: int):
    """Encodes int32 [B, S] once, or feeds the prompts, and makes a cache of static length."""
    return network(self.config).apply({'params': self.params}, tokens, cache_length, method='prefill')

  def step(self, cache, tokens, positions):
    """Feeds int32 [B, T] from positions [B]; float32 logits [B, T, V] and the cache."""
    return network(self.config).apply(
        {'params': self.params}, cache, tokens, positions, method='step')

  def tree_step(self, cache, tokens, positions, slots, key_positions, visible):
    """Feeds int32 [B, n] tokens that may continue different texts, such as the nodes of a tree.

    Args:
      cache: from `prefill` or an earlier pass, of K slots.
      tokens, positions: int32 [B, n]; each token's absolute position in its own text.
      slots: int32 [B], where the n tokens of a row are written from; slots[b] + n must be at most K.
      key_positions: int32 [B, K], the position of what each slot holds after that.
      visible: bool [B, n, K], the slots that each token sees: its own and those before it in its text.

    Returns:
      float32 logits [B, n, V] for the token after each, the cache, and the block: what was written,
      a list of {'key', 'value'} [B, H, n, D], one a layer, for `commit`.
    """
    return network(self.config).apply({'params': self.params}, cache, tokens, positions, slots, key_positions,
                                      visible, method='tree_step')

  def commit(self, cache, block, nodes, slots):
    """Writes the places `nodes` (int32 [B, m]) of a block to the slots from slots [B] on; see `cache.commit`."""
    return cache_lib.commit(cache, block, nodes, slots)

  def decoder_prefix(self, tokens, lengths=None):
    """The decoder's tokens before the first generated one, and how many each row has.

    That is the start token, or a decoder-only model's prompts.

    Args:
      tokens: int32 [B, S], encoder tokens or prompts.
      lengths: int32 [B], of the prompts; all S by default.

    Returns:
      int32 [B, G], int32 [B].
    """
    batch = tokens.shape[0]
    if self.config.decoder_only:
      return tokens, jnp.full(batch, tokens.shape[1], jnp.int32) if lengths is None else lengths
    return (jnp.full((batch, 1), self.config.decoder_start_id, jnp.int32),
            jnp.ones(batch, jnp.int32))

  def check_lengths(self, tokens, lengths, max_decode_len: int):
    """int32 [B] of prompts that fit the model with what is decoded behind them, or None."""
    if not self.config.decoder_only:
      if lengths is not None:
        raise SettingError('lengths are those of prompts, and this model has an encoder: its '
                         'inputs end where their padding begins. Leave lengths out.')
      return None
    lengths = np.full(len(tokens), tokens.shape[1]) if lengths is None else np.asarray(lengths)
    if lengths.shape != (len(tokens),) or not np.issubdtype(lengths.dtype, np.integer):
      raise SettingError(f'lengths must be {len(tokens)} integers, one a row of tokens, not '
                       f'{lengths.dtype} of shape {list(lengths.shape)}.')
    if lengths.min() < 1 or lengths.max() > tokens.shape[1]:
      raise SettingError(f'lengths go from {lengths.min()} to {lengths.max()}; they must be 1 to '
                       f'{tokens.shape[1]}, the columns of tokens.')
    needed, limit = int(lengths.max()) + max_decode_len, self.config.max_positions
    if needed > limit:
      raise SettingError(
          f'Row {lengths.argmax()} has a prompt of {lengths.max()} tokens; with max_decode_len = '
          f'{max_decode_len} that is {needed} positions, and the model has {limit}. Shorten either.')
    return lengths.astype(np.int32)

  def check_tokens(self, tokens, name: str = 'tokens') -> np.ndarray:
    """int32 [B, S] of ids that the model has; ValueError otherwise."""
    tokens = np.asarray(tokens)
    if tokens.ndim != 2 or not np.issubdtype(tokens.dtype, np.integer):
      raise SettingError(f'{name} must be integers of shape [batch, length], not '
                       f'{tokens.dtype} of shape {list(tokens.shape)}.')
    if 0 in tokens.shape:
      raise SettingError(f'{name} is empty (shape {list(tokens.shape)}); give at least one row '
                       'of at least one token.')
    bad = (tokens < 0) | (tokens >= self.config.vocab_size)
    if bad.any():
      row, column = np.argwhere(bad)[0]
      raise SettingError(
          f'{name}[{row}, {column}] is {tokens[row, column]}, but the model has ids 0 to '
          f'{self.config.vocab_size - 1}; was the text encoded with another vocabulary?')
    return tokens.astype(np.int32)

  def _tokenizer(self) -> Vocabulary:
    if self.vocabulary is None:
      raise SettingError('This model has no vocabulary; import it with --vocabulary=FILE, '
                       'or work with token ids.')
    return self.vocabulary


@jax.jit
def _logits(model: Model, *tokens):
  return network(model.config).apply({'params': model.params}, *tokens)
