"""A vocabulary of the `tokenizers` library: byte-level BPE, WordPiece, Unigram, for prompts and encoder inputs."""

import functools
import hashlib
import os
from typing import Any

from etils import epath

from specdec_jax import paths
from specdec_jax.data import identity, tokenizers_making as making
from specdec_jax.data.vocabulary import MOST_BYTES, SPIECE
from specdec_jax.errors import InputError
from specdec_jax.files import json_files
from specdec_jax.files.locations import absolute
from specdec_jax.files.reading import read_bytes, read_text

TOKENIZER = 'tokenizer.json'
_EOS = ('<|endoftext|>', '</s>', '[SEP]', '<eos>')  # in this order, where the model names none


class TokenizersVocabulary(identity.ByPieces):
  """A `Tokenizer` of a tokenizer.json, or of GPT-2's vocab.json with the merges.txt beside it.

  Texts are prompts: nothing follows them, and any id, 0 included, is a real one. What the file's
  template puts before a text (such as EOS, where models learnt to begin after it) is `start`; GPT-2's
  own puts nothing. With `encoder`, texts are an encoder's inputs: the template's, with EOS at their end.
  """

  def __init__(self, path: str | os.PathLike, eos_id: int | None = None, encoder: bool = False):
    """The tokenizer of a file; eos_id is the model's, or by the file where it is None."""
    file = absolute(paths.resolve(path))
    spiece = file.parent / SPIECE
    kept = read_bytes(spiece, 'SentencePiece file', MOST_BYTES) if encoder and spiece.exists() else None
    self._set(_read(file), str(path), eos_id, encoder, kept)

  @classmethod
  def of(cls, tokenizer: Any, path: str, eos_id: int | None = None, encoder: bool = False,
         spiece: bytes | None = None) -> 'TokenizersVocabulary':
    """Of a tokenizer in memory.

    Args:
      tokenizer: a `tokenizers.Tokenizer`.
      path: what it was made of.
      eos_id, encoder: as for a file.
      spiece: contents of the SentencePiece file with the same ids, which other programs may need.
    """
    made = cls.__new__(cls)
    made._set(tokenizer, path, eos_id, encoder, spiece)
    return made

  def _set(self, tokenizer, path: str, eos_id: int | None, encoder: bool, spiece: bytes | None) -> None:
    self.path, self.encoder, self._tokenizer, self._spiece = path, encoder, tokenizer, spiece
    self.model_bytes = tokenizer.to_str().encode()
    self.digest = hashlib.sha256(self.model_bytes).hexdigest()
    tokenizer.no_truncation()  # an input's length is a run's to say
    tokenizer.no_padding()
    self.size = _size(tokenizer)
    if not self.size:
      raise InputError(f"'{path}' has no tokens; it is no model's vocabulary.")
    with making.reading(path, 'cannot encode a text'):
      before, after = _around(tokenizer)
    known = [tokenizer.token_to_id(t) for t in _EOS]
    found = next((i for i in known if i is not None), None) if eos_id is None else eos_id
    self.eos_id: Any = after[-1] if encoder and after else found
    if self.eos_id is None:
      raise InputError(f"'{path}' has none of {', '.join(_EOS)} for the end of a text; give eos_id.")
    self.start = () if encoder else before
    self._around, self._after = {*before, *after, self.eos_id} if encoder else set(), after

  @property
  def files(self) -> dict[str, bytes]:
    """See `Tokenizer`."""
    return {TOKENIZER: self.model_bytes, **({} if self._spiece is None else {SPIECE: self._spiece})}

  @property
  def context_id(self) -> int:
    """The last of `start`; EOS, which ends the text before, where nothing stands before a text; 0 in T5's decoders."""
    return 0 if self.encoder else self.start[-1] if self.start else self.eos_id

  @functools.cached_property
  def pieces(self) -> tuple[str, ...]:
    """See `Tokenizer`."""
    return tuple(making.bare(self._tokenizer.id_to_token(i) or f'<{i}>') for i in range(self.size))

  def encode(self, text: str) -> list[int]:
    """See `Tokenizer`."""
    return self._tokenizer.encode(text, add_special_tokens=False).ids

  def model_input(self, text: str) -> list[int]:
    """See `Tokenizer`: `start` and ids; the prompt stays open. An encoder's ends in EOS."""
    return self.encode_rows([text])[0]

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """See `Tokenizer`."""
    found = self._tokenizer.encode_batch(texts, add_special_tokens=self.encoder)
    if not self.encoder:
      return [[*self.start, *e.ids] for e in found]
    return [e.ids if self._after else [*e.ids, self.eos_id] for e in found]

  def decode(self, ids) -> str:
    """See `Tokenizer`; what a template puts around an encoder's input is left out."""
    kept = [int(i) for i in ids if 0 <= i < self.size and i not in self._around]
    return self._tokenizer.decode(kept, skip_special_tokens=False)

  def piece(self, token: int) -> str:
    """See `Tokenizer`."""
    found = self._tokenizer.id_to_token(int(token))
    if found is None or making.SPACE in found:
      return found or f'<{token}>'
    text = self._tokenizer.decode([int(token)], skip_special_tokens=False)
    return found if not text or (text == '\ufffd' and found.startswith('<0x')) else text  # a part of a character


def _size(tokenizer) -> int:
  """Ids are 0 to size - 1; some may be of no token."""
  count = tokenizer.get_vocab_size()
  if count == 0 or tokenizer.id_to_token(count - 1) is not None:
    return count
  return max(tokenizer.get_vocab().values()) + 1


def _around(tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
  """What a template puts before a text and after it; after a prompt it would end it."""
  probe = 'a'
  tokenizer.encode('\U00010840')  # hardly any tokenizer has it: what stands for the unknown may be missing
  plain = tokenizer.encode(probe, add_special_tokens=False).ids
  whole = tokenizer.encode(probe, add_special_tokens=True).ids
  for at in range(len(whole) - len(plain) + 1):
    if whole[at:at + len(plain)] == plain:
      return tuple(whole[:at]), tuple(whole[at + len(plain):])
  return (), ()


def _read(file: epath.Path):
  import tokenizers
  text = read_text(file, 'tokenizer file', MOST_BYTES)
  if file.name == 'vocab.json':
    merges = read_text(file.parent / 'merges.txt', 'merges.txt (which vocab.json needs beside it)', MOST_BYTES)
  with making.reading(file, 'is not a file of the tokenizers library'):
    if file.name == 'vocab.json':
      return making.byte_level_bpe(json_files.parse(text.encode(), f"'{file}'"), merges)
    return tokenizers.Tokenizer.from_str(text)
