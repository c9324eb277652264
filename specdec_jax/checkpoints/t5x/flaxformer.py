"""Trees of flaxformer, T5X's other library of networks, read as those of T5X's own network.

There an attention may have its kernels fused (`qkv_fused` [E, 3, H, D], `kv_fused` [E, 2, H, D]) or with an axis for
its heads, and a feed-forward block its input projections (`wi_fused` [E, n, M]). UL2's decoder ends in a norm without
scale.
"""

import math
import re
from collections.abc import Sequence

import numpy as np

from specdec_jax.checkpoints.readers import Leaf, Reader
from specdec_jax.errors import CheckpointError

_METADATA = re.compile(r'(.*/)?__(save_format_metadata|version)__(/.*)?')
_FUSED = {'qkv_fused': ('query', 'key', 'value'), 'kv_fused': ('key', 'value')}
_OTHERS = (
    (re.compile(r'.*/(q_wi_fused|o_wo_fused)/.*'), 'attention and feed-forward side by side in one layer'),
    (re.compile(r'.*/(expert|experts|router)(/.*)?'), 'mixtures of experts, as in Switch'))
_LAST_NORM = 'decoder/decoder_norm/scale'


class Flaxformer:
  """See `readers.Reader`. A tree without any of this is handed on as it is."""

  def __init__(self, reader: Reader):
    self._reader, self.source = reader, reader.source
    self.config, self.assumed = reader.config, reader.assumed
    self.notes: Sequence[str] = reader.notes
    self.check_copies = reader.check_copies
    self._parts: dict[str, tuple[str, int | None]] = {}  # where a leaf is, and which part of it
    self._held: tuple[str, np.ndarray | None] = ('', None)
    self.leaves: dict[str, Leaf] = {}
    for path, leaf in reader.leaves.items():
      if other := next((what for pattern, what in _OTHERS if pattern.fullmatch(path)), None):
        raise CheckpointError(f"'{self.source}' has '{path}': {other}, which is not known here; known are T5's, mT5's, "
                              "UMT5's and LongT5's encoders and decoders.")
      if not _METADATA.fullmatch(path):
        self._add(path, leaf)
    if _LAST_NORM not in self.leaves and is_gated(self.leaves) and 'decoder/logits_dense/kernel' not in self.leaves:
      width = next((leaf.shape[-1:] for path, leaf in self.leaves.items() if path.startswith('token_embedder/')), (0,))
      self.leaves[_LAST_NORM] = Leaf(width, 'float32')
      self.notes = [*self.notes, "The decoder's last norm has no scale, as in UL2: it is taken for 1."]

  def read(self, path: str) -> np.ndarray:
    if path not in self._parts:  # the norm that is not there
      return np.ones(self.leaves[path].shape, np.float32)
    origin, part = self._parts[path]
    if self._held[0] != origin:
      self._held = ('', None)  # not two in memory at a time
      self._held = (origin, self._reader.read(origin))
    value = self._held[1]
    assert value is not None
    return np.ascontiguousarray(value if part is None else value[:, part]).reshape(self.leaves[path].shape)

  def _add(self, path: str, leaf: Leaf) -> None:
    """The leaves that one becomes."""
    owner, _, last = path.rpartition('/')
    place, _, name = owner.rpartition('/')
    shape, rank = leaf.shape, len(leaf.shape)
    targets = _FUSED.get(name, ())
    if name == 'wi_fused' and rank == 3:
      targets = ('wi',) if shape[1] == 1 else tuple(f'wi_{i}' for i in range(min(shape[1], 8)))
    if last != 'kernel' or rank < 3 or not (targets or name in ('query', 'key', 'value', 'out')):
      self._parts[path], self.leaves[path] = (path, None), leaf
      return
    if targets and shape[1] != len(targets):
      raise CheckpointError(f"'{path}' of '{self.source}' is {list(shape)}; its second axis should be {len(targets)}.")
    rows = shape[:-1] if name == 'out' else shape[:1]
    columns = shape[-1:] if name == 'out' else shape[2:] if targets else shape[1:]
    for part, target in enumerate(targets or (name,)):
      own = f'{place}/{target}/kernel'
      self._parts[own] = path, part if targets else None
      self.leaves[own] = Leaf((math.prod(rows), math.prod(columns)), leaf.dtype)


def is_gated(leaves: dict[str, Leaf]) -> bool:
  """Whether the feed-forward layers of a T5X tree have two input projections."""
  return any(path.endswith('/wi_0/kernel') for path in leaves)
