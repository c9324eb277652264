"""What every checkpoint format is reduced to: a list of leaves, read one at a time."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from specdec_jax.errors import CheckpointError
from specdec_jax.models.config import GPT2Config, T5Config


@dataclasses.dataclass(frozen=True)
class Leaf:
  """Shape and dtype name ('float32', 'bfloat16', ...) of one array of a checkpoint."""

  shape: tuple[int, ...]
  dtype: str


class Reader(Protocol):
  """A checkpoint, weights only.

  Attributes:
    source: where it lies, for messages.
    leaves: what it holds, by T5X's '/'-joined path.
    config: what it says of itself; None where the format carries no configuration.
    assumed: fields of config that nothing in the checkpoint says.
    notes: lines about it that its reader must tell the user.
  """

  source: str
  leaves: dict[str, Leaf]
  config: T5Config | GPT2Config | None
  assumed: frozenset[str]
  notes: Sequence[str]

  def read(self, path: str) -> np.ndarray:
    """One leaf, as T5X shapes it. Cheapest in the order of `leaves`."""

  def check_copies(self) -> None:
    """Reads what the checkpoint holds twice; CheckpointError where the copies differ."""

_MOST_LAYERS = 10_000  # of a scanned stack


class Unscanned:
  """A scanned T5X tree (scalable_t5) read as one without scanning.

  There the layers of a stack lie on axis 1 of every parameter of
  `encoder/encoder` and `decoder/decoder`, a relative bias in every layer.
  """

  def __init__(self, reader: Reader):
    self._reader, self.source = reader, reader.source
    self.config, self.assumed, self.notes = reader.config, reader.assumed, reader.notes
    self.check_copies = reader.check_copies
    self._origin: dict[str, tuple[str, int | None]] = {}
    self._held: tuple[Any, Any] = (None, None)
    self.leaves = {}
    for path, leaf in reader.leaves.items():
      stack = _scanned_stack(path)
      if stack is None or len(leaf.shape) < 2:
        self._origin[path], self.leaves[path] = (path, None), leaf
        continue
      if leaf.shape[1] > _MOST_LAYERS:
        raise CheckpointError(f"'{path}' in '{reader.source}' is {list(leaf.shape)}: a stack of {leaf.shape[1]} "
                              f'layers. At most {_MOST_LAYERS} are read.')
      rest = path.removeprefix(f'{stack}/{stack}/')
      for i in range(leaf.shape[1]):
        name = f'{stack}/layers_{i}/{rest}'
        self._origin[name] = (path, i)
        self.leaves[name] = Leaf(leaf.shape[:1] + leaf.shape[2:], leaf.dtype)

  def read(self, path: str) -> np.ndarray:
    origin, layer = self._origin[path]
    if layer is None:
      return self._reader.read(origin)
    if self._held[0] != origin:
      self._held = (None, None)  # not two stacks in memory at a time
      self._held = (origin, self._reader.read(origin))
    return np.ascontiguousarray(self._held[1][:, layer])


def unscanned(reader: Reader) -> Reader:
  """The reader itself, or `Unscanned` where its tree is a scanned one."""
  scanned = any(_scanned_stack(path) for path in reader.leaves)
  return Unscanned(reader) if scanned else reader


def _scanned_stack(path: str) -> str | None:
  for stack in ('encoder', 'decoder'):
    if path.startswith(f'{stack}/{stack}/'):
      return stack
  return None
