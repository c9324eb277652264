"""A model as the decoding loop sees it: weights, sizes and vocabulary in one pytree."""

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jaxtyping import Int32

from specdec_jax import compilation
from specdec_jax.checks import integers, row_lengths, sequence, text
from specdec_jax.data.padding import pad_rows
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import SettingError
from specdec_jax.models import cache as cache_lib
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.config_checks import check_eos
from specdec_jax.models.hidden import COLLECTION, Hidden, found
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
  vocabulary: Tokenizer | None = struct.field(pytree_node=False, default=None)

  def __post_init__(self):
    if self.vocabulary is not None and not self.config.num_pieces:
      check_eos('The model', self.config.eos_ids, self.num_tokens)

  def __repr__(self) -> str:
    """One line without weights."""
    count = sum(math.prod(np.shape(leaf)) for leaf in jax.tree.leaves(self.params))
    pieces = 'no vocabulary' if self.vocabulary is None else f'a vocabulary of {self.vocabulary.size} pieces'
    return f'Model({self.config.description}, {count:,} parameters, {pieces})'

  @property
  def num_tokens(self) -> int:
    """Ids that may be decoded: the configuration's count (pieces and T5's sentinels), else the vocabulary's
    pieces, or every row where neither is known."""
    if self.config.num_pieces or self.vocabulary is None:
      return self.config.num_pieces or self.config.vocab_size
    return min(self.vocabulary.size, self.config.vocab_size)

  @property
  def eos_id(self) -> int:
    """The first of `eos_ids`."""
    return self.eos_ids[0]

  @property
  def eos_ids(self) -> tuple[int, ...]:
    """The tokens that end a text, whichever comes first."""
    return self.config.eos_ids

  def encode(self, texts: str | Sequence[str]) -> Int32[np.ndarray, 'B S']:
    """Texts, or a single one, -> int32 [B, S], padded on the right to the longest; an encoder's end in EOS."""
    return pad_rows(self.encode_rows(texts), pad_id=self.config.pad_id)

  def encode_rows(self, texts: str | Sequence[str]) -> list[list[int]]:
    """The rows of `encode`, not padded; for many texts."""
    texts = [texts] if isinstance(texts, str) else list(sequence('texts', texts, text))
    return self._tokenizer().encode_rows(texts)

  def prompts(self, texts: str | Sequence[str]) -> tuple[Int32[np.ndarray, 'B P'], Int32[np.ndarray, ' B']]:
    """Texts, or a single one, as a decoder-only model's prompts: int32 [B, P], and the `lengths` of each, [B]."""
    if not self.config.decoder_only:
      raise SettingError('This model has an encoder: its inputs are made by encode, without lengths.')
    rows = self.encode_rows(texts)
    return pad_rows(rows, pad_id=self.config.pad_id), np.array(list(map(len, rows)), np.int32)

  def decode(self, tokens: Any, lengths: Any = None) -> list[str]:
    """int [B, L], or a single row [L], -> texts: of each row what comes before the first of `eos_ids`.

    Ids that are no piece are left out; of an encoder-decoder its padding too.

    Args:
      tokens: such as a `Result.tokens`.
      lengths: int [B], how many of each row's tokens count; all by default.
    """
    tokenizer = self._tokenizer()
    rows = tokens if isinstance(tokens, Sequence) else np.asarray(tokens)
    if len(rows) and np.ndim(rows[0]) == 0:
      rows = [rows]
    left_out = () if self.config.decoder_only else (self.config.pad_id,)
    texts = []
    for i, row in enumerate(rows):
      ids = integers(f'tokens[{i}]', row, (None,), '[length]').tolist() if len(row) else []
      ids = ids if lengths is None else ids[:int(lengths[i])]
      end = next((at for at, token in enumerate(ids) if token in self.eos_ids), None)
      texts.append(tokenizer.decode([token for token in ids[:end] if token not in left_out]))
    return texts

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

  def prefilled(self, tokens, cache_length: int, given=None):
    """`prefill`, then one pass over decoder tokens that are given, int32 [B, G], padded on the right."""
    cache = self.prefill(tokens, cache_length)
    return cache if given is None else self.step(cache, given, jnp.zeros(len(given), jnp.int32))[1]

  def with_hidden(self, method: str, *args) -> tuple[Any, Hidden]:
    """What a pass returns ('prefill', 'step' or 'tree_step', with its arguments), and its hidden states."""
    result, told = network(self.config).apply({'params': self.params}, *args, method=method, mutable=[COLLECTION])
    return result, found(told)

  def prefilled_with_hidden(self, tokens, cache_length: int, given=None) -> tuple[Any, Hidden]:
    """`prefilled`, and the hidden states in it: of the prompts or of what is given, if there is any."""
    cache, hidden = self.with_hidden('prefill', tokens, cache_length)
    if given is not None:
      (_, cache), of_given = self.with_hidden('step', cache, given, jnp.zeros(len(given), jnp.int32))
      hidden = hidden.replace(last=of_given.last)
    return cache, hidden

  def embed(self, tokens) -> jax.Array:
    """The embedding's rows of int32 [...]: [..., E]."""
    found: Any = network(self.config).apply({'params': self.params}, tokens, method='embed')
    return found

  def to_logits(self, hidden) -> jax.Array:
    """The vocabulary product: last hidden states [..., E] -> float32 logits [..., V]."""
    logits: Any = network(self.config).apply({'params': self.params}, hidden, method='to_logits')
    return logits

  def repeated(self, cache, times: int):
    """A cache in which each row stands so many times; see `cache.repeat`."""
    return cache_lib.repeat(cache, times)

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

  def decoder_prefix(self, tokens, lengths=None, given=None, given_lengths=None):
    """The decoder's tokens before the first generated one, and how many each row has.

    That is what is given, else the start token, or a decoder-only model's prompts.

    Args:
      tokens: int32 [B, S], encoder tokens or prompts.
      lengths: int32 [B], of the prompts; all S by default.
      given, given_lengths: int32 [B, G] and [B], or None; see `Request`.

    Returns:
      int32 [B, G], int32 [B].
    """
    if given is not None:
      return given, given_lengths
    batch = tokens.shape[0]
    if self.config.decoder_only:
      return tokens, jnp.full(batch, tokens.shape[1], jnp.int32) if lengths is None else lengths
    return (jnp.full((batch, 1), self.config.decoder_start_id, jnp.int32),
            jnp.ones(batch, jnp.int32))

  def check_lengths(self, tokens, lengths, max_decode_len: int):
    """int32 [B] of prompts that fit the model with what is decoded after them, or None."""
    if not self.config.decoder_only:
      if lengths is not None:
        raise SettingError('lengths are those of prompts, and this model has an encoder: its '
                         'inputs end where their padding begins. Leave lengths out.')
      return None
    rows, columns = tokens.shape
    lengths = np.full(rows, columns) if lengths is None else lengths
    lengths = row_lengths('lengths', lengths, (rows,), columns, 'tokens', least=1)
    needed, limit = int(lengths.max()) + max_decode_len, self.config.max_positions
    if needed > limit:
      raise SettingError(
          f'Row {lengths.argmax()} has a prompt of {lengths.max()} tokens; with max_decode_len = '
          f'{max_decode_len} that is {needed} positions, and the model has {limit}. Shorten either.')
    return lengths

  def check_tokens(self, tokens, name: str = 'tokens') -> np.ndarray:
    """int32 [B, S] of ids that the model has; ValueError otherwise."""
    tokens = _array(name, tokens)
    if tokens.ndim != 2 or not np.issubdtype(tokens.dtype, np.integer):
      mend = 'prompts' if self.config.decoder_only else 'encode'
      hint = f' Model.{mend} makes them of texts.' if tokens.dtype.kind in 'UO' else ''
      raise SettingError(f'{name} must be integers of shape [batch, length], not '
                       f'{tokens.dtype} of shape {list(tokens.shape)}.{hint}')
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

  def _tokenizer(self) -> Tokenizer:
    if self.vocabulary is None:
      raise SettingError('This model has no vocabulary; import it with --vocabulary=FILE, '
                       'or work with token ids.')
    return self.vocabulary


@compilation.jit
def _logits(model: Model, *tokens):
  return network(model.config).apply({'params': model.params}, *tokens)


def _array(name: str, values: Any) -> np.ndarray:
  try:
    return np.asarray(values)
  except ValueError:
    raise SettingError(f'{name} has rows of unequal lengths; pad them on the right, as encode does.') from None
