"""A SentencePiece vocabulary with T5's ids, without TensorFlow."""

import hashlib
import os

import numpy as np
import sentencepiece

from specdec_jax import paths
from specdec_jax.errors import InputError
from specdec_jax.files.reading import read_bytes


class Vocabulary:
  """SentencePiece model; pad is 0, EOS what the model says (1 in T5), or 1.

  The file is local, gs:// or shipped ('embedded:ende/spiece.model'). Vocabularies are compared
  and hashed by its contents, so that two models can be asked whether they share a tokenizer.
  """

  def __init__(self, path: str | os.PathLike):
    self.path = str(path)
    self.model_bytes = read_bytes(paths.resolve(path), 'SentencePiece file')
    self.digest = hashlib.sha256(self.model_bytes).hexdigest()
    try:
      self._processor = sentencepiece.SentencePieceProcessor(model_proto=self.model_bytes)
    except Exception as e:  # the library raises RuntimeError or its own types
      raise InputError(f"'{path}' is not a SentencePiece model.") from e

  @property
  def size(self) -> int:
    return self._processor.vocab_size()

  @property
  def eos_id(self) -> int:
    return self._processor.eos_id() if self._processor.eos_id() >= 0 else 1

  def encode(self, text: str) -> list[int]:
    """Ids of one text, without EOS."""
    return self._processor.encode(text)

  def decode(self, ids) -> str:
    """Text of one row of ids, up to the first EOS; ids that are no piece are skipped."""
    ids = [int(i) for i in ids]
    if self.eos_id in ids:
      ids = ids[:ids.index(self.eos_id)]
    return self._processor.decode([i for i in ids if 0 < i < self.size])

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """The rows of `encode_batch`, not padded; many texts at once take less time than one by one."""
    return [row + [self.eos_id] for row in self._processor.encode(texts)]

  def encode_batch(self, texts: list[str], max_length: int | None = None) -> np.ndarray:
    """int32 [B, S]: each text's ids and EOS, padded with 0 on the right to the longest."""
    rows = [self.encode(t) + [self.eos_id] for t in texts]
    if max_length is not None:
      rows = [r if len(r) <= max_length else r[:max_length - 1] + [self.eos_id] for r in rows]
    return pad_rows(rows)

  def piece(self, token: int) -> str:
    return self._processor.id_to_piece(int(token)) if 0 <= token < self.size else f'<{token}>'

  def __eq__(self, other):
    return isinstance(other, Vocabulary) and self.digest == other.digest

  def __hash__(self):
    return hash(self.digest)


def pad_rows(rows: list[list[int]], length: int | None = None) -> np.ndarray:
  """Lists of ids -> int32 [B, length or the longest], 0 on the right."""
  length = length or max(map(len, rows), default=0)
  out = np.zeros((len(rows), length), np.int32)
  for i, row in enumerate(rows):
    out[i, :len(row)] = row
  return out
