"""What a drafter is: anything with these methods that passes through `jax.jit`."""

from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from flax import struct

from specdec_jax.models.hidden import Hidden
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


class Request(struct.PyTreeNode):
  """What a decode was given.

  Attributes:
    tokens: int32 [B, S], encoder tokens or a decoder-only model's prompts, padded on the right.
    lengths: int32 [B], how many of each row's tokens are no padding.
    given: int32 [B, G], decoder tokens that an encoder-decoder begins with, its start token first; None where that is
      all, and of a decoder-only model.
    given_lengths: int32 [B], how many of them each row has; None with `given`.
    hidden: the target's hidden states, of drafters that want them, see `Drafter`: its encoder's output, and `last` of
      the prompts or of `given`, from the pass that it makes over them anyway. None of other drafters.
  """

  tokens: jax.Array | np.ndarray
  lengths: jax.Array | np.ndarray
  given: jax.Array | np.ndarray | None = None
  given_lengths: jax.Array | np.ndarray | None = None
  hidden: Hidden | None = None


class Text(struct.PyTreeNode):
  """Where each row's text stands.

  Attributes:
    history: int32 [B, N], decoder tokens, the start token or the prompt in front. The last committed one, the root
      of a draft tree, stands at `position`; what is after it is left over and means nothing.
    position: int32 [B].
    prefix_end: int32 [B], place of the last token that was given, not generated.
    hidden: the target's last hidden states at the D + 1 places before `position`, the nearest last, of drafters that
      want them: [B, D + 1, E], D the depth of the tree. The one at a place was made from the tokens up to there, so
      the last speaks of the root and has not seen it. Zeros before the start of a text: no pass is made for them.
  """

  history: jax.Array
  position: jax.Array
  prefix_end: jax.Array
  hidden: jax.Array | None = None


class Proposal(struct.PyTreeNode):
  """A draft for every row.

  Attributes:
    tokens: int32 [B, M], of each node of the tree; -1 where there is no candidate: such a node and its later
      siblings are never accepted.
    q: float32 [B, P, V], the distributions that the children of each of P nodes were sampled from, one after another
      and without replacement; in the order of `Tree.expanded`. None where every token was proposed for certain.
  """

  tokens: jax.Array
  q: jax.Array | None


@runtime_checkable
class Drafter(Protocol):
  """Guesses what comes next for the target to verify; such as a `flax.struct.PyTreeNode`.

  The text follows the target's distribution whatever is drafted, on one condition: `propose`
  returns the distributions that its tokens were really sampled from.

  Optional attributes: `draft`, a `Model` that is run once a level of the tree, or `operations`, the
  multiply-adds of a draft token, which thm 3.11 takes to be 0 otherwise; `most_depth`, the most tokens that it drafts
  one after another; `wants_hidden`, whether `Request.hidden` and `Text.hidden` are to be there; and
  `for_target(target)`, which returns the drafter with what it uses of the target's own weights.
  """

  @property
  def name(self) -> str:
    """Shown in reports."""

  def check(self, target) -> None:
    """SettingError, in one line, where it cannot draft for this target."""

  def prefill(self, request: Request, cache_length: int) -> Any:
    """The state of one request: a pytree with a row for each of the request's, or ()."""

  def propose(self, state: Any, text: Text, tree: Tree, keys: jax.Array,
              standardizer: Standardizer) -> tuple[Proposal, Any]:
    """Drafts a tree of candidates a row; a chain of gamma tokens is `Tree.chain(gamma)`.

    Args:
      state: of `prefill` or of the last `propose`; a rewind does not touch it.
      text: where each row stands.
      tree: static.
      keys: typed keys [B]; a row's tokens may depend on nothing else that is random.
      standardizer: turns logits into the distribution to sample from.

    Returns:
      The proposal, and the state.
    """

  def distributions(self, request: Request, history: jax.Array, prefix_end: jax.Array,
                    standardizer: Standardizer) -> jax.Array:
    """Teacher-forced: what it would draft each token of a text from [cor. 3.6].

    Args:
      request: as in `prefill`.
      history: int32 [B, N], decoder tokens, the start token or the prompt first; causal, so
        what stands after a row's end does not matter.
      prefix_end: int32 [B], place of the last token that was given.
      standardizer: as in `propose`.

    Returns:
      float32 [B, N - 1, V], of history[:, 1:].
    """


def wants_hidden(drafter: Any) -> bool:
  """Whether a drafter, or None, is to be told the target's hidden states."""
  return getattr(drafter, 'wants_hidden', False)


def for_target(drafter: Any, target: Any) -> Any:
  """The drafter as it drafts for this target: with the target's own weights in it, where it uses them."""
  bind = getattr(drafter, 'for_target', None)
  return drafter if bind is None else bind(target)
