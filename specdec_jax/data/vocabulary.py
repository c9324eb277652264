"""A SentencePiece vocabulary with T5's ids, without TensorFlow."""

import hashlib
import os

import sentencepiece

from specdec_jax import paths
from specdec_jax.errors import InputError
from specdec_jax.files.reading import read_bytes

MOST_BYTES = 100_000_000  # of a vocabulary's file; the largest known are a third of that


class Vocabulary:
  """A `Tokenizer` of a SentencePiece file; EOS is what the file says (1 in T5), or 1.

  The file is local, gs:// or shipped ('embedded:ende/spiece.model'). Vocabularies are compared
  and hashed by its contents, so that two models can be asked whether they share a tokenizer.
  """

  def __init__(self, path: str | os.PathLike):
    self.path = str(path)
    self.model_bytes = read_bytes(paths.resolve(path), 'SentencePiece file', MOST_BYTES)
    self.digest = hashlib.sha256(self.model_bytes).hexdigest()
    try:
      self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_bytes)
    except Exception as e:  # the library raises RuntimeError or its own types
      raise InputError(f"'{path}' is not a SentencePiece model.") from e
    if not self.model_bytes or self.size <= self.eos_id:
      size = self.size if self.model_bytes else 0
      raise InputError(f"'{path}' has {size} pieces, not even one that ends a text; it is no model's vocabulary.")

  @property
  def size(self) -> int:
    return self._processor.vocab_size()

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

  def __eq__(self, other):
    return isinstance(other, Vocabulary) and self.digest == other.digest

  def __hash__(self):
    return hash(self.digest)
