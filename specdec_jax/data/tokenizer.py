"""What a vocabulary is to everything that uses one: anything with these methods."""

from typing import Any, Protocol, runtime_checkable

from specdec_jax import checks


@runtime_checkable
class Tokenizer(Protocol):
  """Texts to token ids and back; equal where the ids mean the same (see `identity`).

  Attributes:
    path: the file it was read from.
    model_bytes: contents of that file, as a model directory keeps it.
    digest: of model_bytes, hexadecimal.
    files: what a model directory keeps of it, by name.
    pieces: the piece of each id, sentinels without a space before them.
    identity: of the pieces, hexadecimal.
    eos_id: the id that ends a text.
    start: ids that stand before a text in a prompt; none in an encoder's inputs.
    context_id: the id that a decoder is fed before a text's first token: what the first token of a text follows.
  """

  path: str
  model_bytes: bytes
  digest: str

  @property
  def files(self) -> dict[str, bytes]: ...

  @property
  def pieces(self) -> tuple[str, ...]: ...

  @property
  def identity(self) -> str: ...

  @property
  def size(self) -> int:
    """Number of pieces: ids are 0 to size - 1."""

  @property
  def eos_id(self) -> int: ...

  @property
  def start(self) -> tuple[int, ...]: ...

  @property
  def context_id(self) -> int: ...

  def encode(self, text: str) -> list[int]:
    """Ids of one text alone, without `start` and EOS."""

  def model_input(self, text: str) -> list[int]:
    """Ids of one text as a model takes them: EOS after an encoder's input, `start` before a prompt."""

  def encode_rows(self, texts: list[str]) -> list[list[int]]:
    """`model_input` of each; many texts at once take less time than one by one."""

  def decode(self, ids: list[int]) -> str:
    """Text of ids; those that are no piece are skipped. An id that ends texts is not looked for."""

  def piece(self, token: int) -> str:
    """One id as a person may read it."""


def checked(name: str, value: Any) -> Tokenizer:
  """A setting's value that turns texts into ids: no text, number or class of it."""
  plain = isinstance(value, (str, bytes, type)) or not hasattr(value, 'eos_id')
  return checks.instance(name, value, (), 'a vocabulary, such as @Vocabulary()') if plain else value
