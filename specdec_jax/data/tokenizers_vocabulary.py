"""A vocabulary of the `tokenizers` library: GPT-2's byte-level BPE, BERT's WordPiece."""

import hashlib
import os
from typing import Any

from etils import epath

from specdec_jax import paths
from specdec_jax.data.vocabulary import MOST_BYTES
from specdec_jax.errors import InputError
from specdec_jax.files.locations import absolute
from specdec_jax.files.reading import read_text

_EOS = ('<|endoftext|>', '</s>', '[SEP]', '<eos>')  # in this order, where the model names none


class TokenizersVocabulary:
  """A `Tokenizer` of a tokenizer.json, or of GPT-2's vocab.json with the merges.txt beside it.

  Texts are prompts: nothing follows them, and any id, 0 included, is a real one. What the file's
  template puts before a text (such as EOS, where models learnt to begin after it) is `start`; GPT-2's
  own puts nothing.
  """

  def __init__(self, path: str | os.PathLike, eos_id: int | None = None):
    self.path = str(path)
    self._tokenizer = _read(absolute(paths.resolve(path)))
    self.model_bytes = self._tokenizer.to_str().encode()
    self.digest = hashlib.sha256(self.model_bytes).hexdigest()
    known = [self._tokenizer.token_to_id(t) for t in _EOS]
    found = next((i for i in known if i is not None), None)
    if eos_id is None and found is None:
      raise InputError(f"'{path}' has none of {', '.join(_EOS)} for the end of a text; give eos_id.")
    self.eos_id: Any = found if eos_id is None else eos_id
    if not self.size:
      raise InputError(f"'{path}' has no tokens; it is no model's vocabulary.")
    try:
      self.start = _start(self._tokenizer)
    except Exception as e:  # the library raises bare Exception
      raise InputError(f"'{path}' cannot encode a text ({e}).") from e

  @property
  def context_id(self) -> int:
    """The last of `start`; EOS, which ends the text before, where nothing stands before a text."""
    return self.start[-1] if self.start else self.eos_id

  @property
  def size(self) -> int:
    return self._tokenizer.get_vocab_size()

  def encode(self, text: str) -> list[int]:
    """See `Tokenizer`."""
    return self._tokenizer.encode(text, add_special_tokens=False).ids

  def model_input(self, text: str) -> list[int]:
    """See `Tokenizer`: `start` and ids; the prompt stays open."""
    return [*self.start, *self.encode(text)]

  def decode(self, ids) -> str:
    """See `Tokenizer`."""
    return self._tokenizer.decode([int(i) for i in ids if 0 <= i < self.size], skip_special_tokens=False)

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """See `Tokenizer`."""
    return [[*self.start, *e.ids] for e in self._tokenizer.encode_batch(texts, add_special_tokens=False)]

  def piece(self, token: int) -> str:
    """See `Tokenizer`."""
    found = self._tokenizer.id_to_token(int(token))
    return f'<{token}>' if found is None else self._tokenizer.decode([int(token)]) or found

  def __eq__(self, other):
    return isinstance(other, TokenizersVocabulary) and self.digest == other.digest

  def __hash__(self):
    return hash(self.digest)


def _start(tokenizer) -> tuple[int, ...]:
  """What a template puts before a text; what it puts after one would end the prompt."""
  probe = 'a'
  plain = tokenizer.encode(probe, add_special_tokens=False).ids
  whole = tokenizer.encode(probe, add_special_tokens=True).ids
  for at in range(len(whole) - len(plain) + 1):
    if whole[at:at + len(plain)] == plain:
      return tuple(whole[:at])
  return ()


def _read(file: epath.Path):
  import tokenizers
  text = read_text(file, 'tokenizer file', MOST_BYTES)
  if file.name == 'vocab.json':
    merges = read_text(file.parent / 'merges.txt', 'merges.txt (which vocab.json needs beside it)', MOST_BYTES)
  try:
    return _byte_level_bpe(text, merges) if file.name == 'vocab.json' else tokenizers.Tokenizer.from_str(text)
  except Exception as e:  # the library raises bare Exception
    raise InputError(f"'{file}' is not a file of the tokenizers library ({e}).") from e


def _byte_level_bpe(vocab: str, merges: str):
  """GPT-2's tokenizer of its two files."""
  import json

  import tokenizers
  from tokenizers import decoders, models, pre_tokenizers
  pairs: Any = [tuple(line.split(' ')) for line in merges.splitlines() if line and not line.startswith('#version')]
  made = tokenizers.Tokenizer(models.BPE(json.loads(vocab), pairs))
  made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  made.decoder = decoders.ByteLevel()
  if made.token_to_id('<|endoftext|>') is not None:
    made.add_special_tokens(['<|endoftext|>'])
  return made
