"""What a pass tells of its hidden states to whoever asks; nobody else pays for it.

A Flax module `tell`s by `sow` into a collection of its own, which is dropped unless the caller makes it mutable.
"""

from collections.abc import Mapping
from typing import Any

import jax
from flax import linen as nn, struct
from jaxtyping import Array, Float

COLLECTION, ENCODED, LAST = 'hidden', 'encoded', 'last'


class Hidden(struct.PyTreeNode):
  """Hidden states of a pass, in the model's dtype.

  Attributes:
    encoded: the encoder's output; None of a pass without it.
    last: what the vocabulary product makes the logits from, of each token of the decoder's pass; None without one.
  """

  encoded: Float[Array, 'B S E'] | None
  last: Float[Array, 'B T E'] | None


def tell(module: nn.Module, name: str, value: jax.Array) -> None:
  """Inside a pass: leaves a hidden state for `found`."""
  module.sow(COLLECTION, name, value, reduce_fn=lambda _, new: new, init_fn=lambda: None)


def found(told: Mapping[str, Any]) -> Hidden:
  """What `apply(..., mutable=[COLLECTION])` returns beside the result."""
  flat = {path[-1].key: leaf for path, leaf in jax.tree_util.tree_leaves_with_path(dict(told))}
  return Hidden(encoded=flat.get(ENCODED), last=flat.get(LAST))
