"""A model directory read a leaf at a time, as the checkpoints of other programs are."""

import os

import numpy as np
from etils import epath

from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.checkpoints.description import WEIGHTS, Config
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.models.parameters import is_matrix


class ModelReader:
  """See `readers.Reader`; holds one part of the weights at a time."""

  assumed, notes = frozenset(), ()

  def __init__(self, directory: epath.Path, config: Config, parts: list[str], dtype: str):
    """dtype: what matrices are read as; the rest is float32."""
    self.source, self.config = os.fspath(directory), config
    self._weights, self._dtype = directory / WEIGHTS, dtype
    self._held: tuple[str, dict[str, np.ndarray]] = ('', {})
    self._part: dict[str, str] = {}
    self.leaves: dict[str, Leaf] = {}
    for part in parts:
      for path, leaf in storage_lib.leaves(self._weights, [part]).items():
        self._part[path] = part
        self.leaves[path] = Leaf(leaf.shape, dtype if is_matrix(path, leaf.shape) else 'float32')

  def read(self, path: str) -> np.ndarray:
    part = self._part[path]
    if self._held[0] != part:
      self._held = ('', {})  # not two parts in memory at a time
      self._held = (part, dict(storage_lib.read(self._weights, self._dtype, [part])))
    return self._held[1][path]

  def check_copies(self) -> None:
    """There are none."""
