"""What is static about a decode: another value compiles another program."""

import dataclasses

from specdec_jax.tree import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """Shapes and choices of the loop.

  Attributes:
    tree: of a draft; None is plain decoding.
    max_decode_len: most tokens of a row.
    verification: the acceptance rule, see `rule.verify`.
    lenient: whether lenience is below 1.
    trace: whether every iteration is recorded.
    num_samples: rows of each input.
  """

  tree: Tree | None
  max_decode_len: int
  verification: str = 'token'
  lenient: bool = False
  trace: bool = False
  num_samples: int = 1

  @property
  def num_nodes(self) -> int:
    """Draft tokens of an iteration; of a chain gamma."""
    return 0 if self.tree is None else self.tree.num_nodes

  @property
  def depth(self) -> int:
    """The most draft tokens that an iteration can accept; of a chain gamma."""
    return 0 if self.tree is None else self.tree.depth

  @property
  def room(self) -> int:
    """Slots of the history and the caches after what is given: a whole pass fits after the last position."""
    return self.max_decode_len + self.num_nodes + 1
