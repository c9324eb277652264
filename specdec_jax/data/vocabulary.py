"""A SentencePiece vocabulary with T5's ids, without TensorFlow."""

import functools
import hashlib
import os

import sentencepiece

from specdec_jax import checks, paths
from specdec_jax.data import identity, tokenizers_making as making
from specdec_jax.errors import InputError
from specdec_jax.files.reading import read_bytes

MOST_BYTES = 100_000_000  # of a vocabulary's file; the largest known are a third of that
SPIECE = 'spiece.model'


class Vocabulary(identity.ByPieces):
  """A `Tokenizer` of a SentencePiece file; EOS is what the file says (1 in T5), or 1.

  The file is local, gs:// or shipped ('embedded:ende/spiece.model'). Sentinels `<extra_id_0>`, ... may follow its
  pieces, the first of them last, as those of seqio's `SentencePieceVocabulary`: each is one id in a text where it
  stands at a word's beginning, and is shown in decoded texts.
  """

  def __init__(self, path: str | os.PathLike, extra_ids: int = 0):
    """Reads a file; extra_ids is the number of sentinels."""
    content = read_bytes(paths.resolve(path), 'SentencePiece file', MOST_BYTES)
    self._set(content, str(path), checks.whole('Vocabulary.extra_ids', extra_ids, 0))

  @classmethod
  def of(cls, content: bytes, path: str, extra_ids: int = 0) -> 'Vocabulary':
    """Of the contents of a file."""
    made = cls.__new__(cls)
    made._set(content, path, extra_ids)
    return made

  def _set(self, content: bytes, path: str, extra_ids: int) -> None:
    self.path, self.extra_ids, self.model_bytes = path, extra_ids, content
    self.digest = hashlib.sha256(content).hexdigest()
    try:
      self._processor = sentencepiece.SentencePieceProcessor(model_proto=content)
    except Exception as e:  # the library raises RuntimeError or its own types
      raise InputError(f"'{path}' is not a SentencePiece model.") from e
    if not content or self.size <= self.eos_id:
      size = self.size if content else 0
      raise InputError(f"'{path}' has {size} pieces, not even one that ends a text; it is no model's vocabulary.")
    if extra_ids:
      self._processor = sentencepiece.SentencePieceProcessor(model_proto=content + _sentinels(extra_ids))

  def with_sentinels(self, extra_ids: int) -> 'Vocabulary':
    """The same file with so many sentinels."""
    return self if extra_ids == self.extra_ids else Vocabulary.of(self.model_bytes, self.path, extra_ids)

  @property
  def size(self) -> int:
    return self._processor.vocab_size()

  @property
  def files(self) -> dict[str, bytes]:
    """See `Tokenizer`; the number of sentinels is what a model's `num_pieces` adds to the pieces of the file."""
    return {SPIECE: self.model_bytes}

  @property
  def eos_id(self) -> int:
    return self._processor.eos_id() if self._processor.eos_id() >= 0 else 1

  @property
  def start(self) -> tuple[int, ...]:
    return ()

  @property
  def context_id(self) -> int:
    """T5's decoders start with 0."""
    return 0

  @functools.cached_property
  def pieces(self) -> tuple[str, ...]:
    """See `Tokenizer`."""
    return tuple(map(making.bare, self._processor.id_to_piece(list(range(self.size)))))

  def encode(self, text: str) -> list[int]:
    """See `Tokenizer`."""
    return self._processor.encode(text)

  def model_input(self, text: str) -> list[int]:
    """See `Tokenizer`: ids and EOS, as T5's encoders are fed."""
    return [*self.encode(text), self.eos_id]

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """See `Tokenizer`."""
    return [[*row, self.eos_id] for row in self._processor.encode(texts)]

  def decode(self, ids) -> str:
    """See `Tokenizer`."""
    return self._processor.decode([int(i) for i in ids if 0 <= i < self.size])

  def piece(self, token: int) -> str:
    """See `Tokenizer`."""
    return self._processor.id_to_piece(int(token)) if 0 <= token < self.size else f'<{token}>'


def _sentinels(count: int) -> bytes:
  """What seqio adds to a file: pieces of the kind that is always whole, in the format of sentencepiece_model.proto."""
  def field(number: int, body: bytes) -> bytes:
    return bytes([8 * number + 2, len(body)]) + body

  score, user_defined = b'\x15\0\0\0\0', b'\x18\x04'
  return b''.join(field(1, field(1, f'\u2581{name}'.encode()) + score + user_defined)
                  for name in making.sentinel_names(count))
