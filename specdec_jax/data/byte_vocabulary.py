"""ByT5's vocabulary: the bytes of UTF-8 after three special ids, then sentinels; it has no file of its own."""

import functools
import hashlib
import json
import os
import re
from collections.abc import Mapping

from specdec_jax import checks
from specdec_jax.data import identity
from specdec_jax.errors import CheckpointError, InputError
from specdec_jax.files import json_files
from specdec_jax.files.reading import read_bytes

NAME, FILE = 'bytes', 'bytes.json'  # how a user names it, and what a model directory keeps of it
BYT5_EXTRA_IDS = 125
_SPECIAL = ('<pad>', '</s>', '<unk>')
BYTES = len(_SPECIAL) + 256


class ByteVocabulary(identity.ByPieces):
  """A `Tokenizer` of bytes: 0 to 2 are padding, EOS and unknown, a byte b is b + 3.

  `<extra_id_0>`, ... are the ids from 259 on, in this order, as transformers counts them. Special ids are found in
  texts, with the spaces around the first three, and left out of decoded texts, as are bytes that are no UTF-8.
  """

  def __init__(self, extra_ids: int = BYT5_EXTRA_IDS, added: Mapping[str, int] | None = None):
    """A number of sentinels, and further tokens with their ids."""
    extra_ids = checks.whole('ByteVocabulary.extra_ids', extra_ids, 0)
    self.path = NAME
    self._tokens = {f'<extra_id_{i}>': BYTES + i for i in range(extra_ids)} | dict(added or {})
    for text, token in self._tokens.items():
      checks.whole(f'the id of {text!r}', token, BYTES)
    if len(set(self._tokens.values())) < len(self._tokens):
      raise InputError('Two tokens added to a byte vocabulary have the same id.')
    self._texts = {token: text for text, token in self._tokens.items()}
    self.model_bytes = json.dumps({'extra_ids': extra_ids, 'added': dict(added or {})}).encode()
    self.digest = hashlib.sha256(self.model_bytes).hexdigest()
    longest_first = '|'.join(map(re.escape, sorted(self._tokens, key=len, reverse=True)))
    special = '|'.join(map(re.escape, _SPECIAL))
    self._found = re.compile(rf'\s*({special})\s*' + (f'|({longest_first})' if longest_first else ''))

  @classmethod
  def read(cls, path: str | os.PathLike) -> 'ByteVocabulary':
    """Of the file in a model directory."""
    fields = json_files.parse(read_bytes(path, 'byte vocabulary'), f"'{path}'")
    if fields.keys() != {'extra_ids', 'added'} or not isinstance(fields['added'], dict):
      raise CheckpointError(f"'{path}' is no description of a byte vocabulary; copy it again.")
    return cls(**fields)

  @property
  def extra_ids(self) -> int:
    """The number of sentinels."""
    return json.loads(self.model_bytes)['extra_ids']

  @property
  def added(self) -> dict[str, int]:
    """Tokens after them."""
    return json.loads(self.model_bytes)['added']

  @property
  def files(self) -> dict[str, bytes]:
    """See `Tokenizer`."""
    return {FILE: self.model_bytes}

  @property
  def size(self) -> int:
    return max(self._texts, default=BYTES - 1) + 1

  @property
  def eos_id(self) -> int:
    return 1

  @property
  def start(self) -> tuple[int, ...]:
    return ()

  @property
  def context_id(self) -> int:
    """ByT5's decoders start with 0."""
    return 0

  @functools.cached_property
  def pieces(self) -> tuple[str, ...]:
    """See `Tokenizer`."""
    return (*_SPECIAL, *(f'<0x{b:02X}>' for b in range(256)),
            *(self._texts.get(i, f'<{i}>') for i in range(BYTES, self.size)))

  def encode(self, text: str) -> list[int]:
    """See `Tokenizer`."""
    ids, at = [], 0
    for match in self._found.finditer(text):
      ids += _bytes(text[at:match.start()])
      ids.append(_SPECIAL.index(match[1]) if match[1] else self._tokens[match[2]])
      at = match.end()
    return ids + _bytes(text[at:])

  def model_input(self, text: str) -> list[int]:
    """See `Tokenizer`: ids and EOS, which a text that ends in </s> has already."""
    ids = self.encode(text)
    return ids if ids[-1:] == [self.eos_id] else [*ids, self.eos_id]

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """See `Tokenizer`."""
    return [self.model_input(text) for text in texts]

  def decode(self, ids) -> str:
    """See `Tokenizer`."""
    found = b''.join(bytes([i - 3]) if 3 <= i < BYTES else self._texts.get(i, '').encode() for i in map(int, ids))
    return found.decode('utf-8', 'ignore')

  def piece(self, token: int) -> str:
    """See `Tokenizer`."""
    if 32 <= token - 3 < 127:
      return chr(token - 3)
    return self.pieces[token] if 0 <= token < self.size else f'<{token}>'


def _bytes(text: str) -> list[int]:
  return [b + 3 for b in text.encode('utf-8', 'surrogatepass')]
