"""What a drafter is: anything with these methods that passes through `jax.jit`."""

from typing import Any, Protocol, runtime_checkable

import jax


@runtime_checkable
class Drafter(Protocol):
  """Guesses gamma tokens for the target to verify; such as a `flax.struct.PyTreeNode`.

  The text follows the target's distribution whatever is drafted, on one condition: `propose`
  returns the distributions that its tokens were really drawn from. A drafter that takes one
  token for certain returns a one-hot distribution.

  Two attributes are optional: `draft`, a `Model` that is run once a draft token, or
  `operations`, the multiply-adds of a draft token; thm 3.11 takes them to be 0 otherwise.

  Attributes:
    name: shown in reports.
  """

  name: str

  def check(self, target) -> None:
    """ValueError, in one line, where it cannot draft for this target."""

  def prefill(self, tokens, cache_length: int) -> Any:
    """Encoder tokens or prompts, int32 [B, S] -> the state of one request: a pytree, or ()."""

  def propose(self, state, history, position, first, keys, gamma: int,
              standardizer) -> tuple[jax.Array, jax.Array, Any]:
    """Draws gamma tokens a row.

    Args:
      state: of `prefill` or of the last `propose`; a rewind does not touch it.
      history: int32 [B, N], decoder tokens, the start token or the prompt first. The last committed
        one stands at `position`; what is behind it is left over and means nothing.
      position: int32 [B].
      first: int32 [B], place of the last token that was given, not generated.
      keys: typed keys [B]; a row's tokens may depend on nothing else that is random.
      gamma: how many.
      distribution: `Standardizer`, which turns logits into the distribution to draw from.

    Returns:
      Draft tokens int32 [B, gamma], their distributions float32 [B, gamma, V], and the state.
    """

  def distributions(self, tokens, history, first, standardizer) -> jax.Array:
    """Teacher-forced: the distribution it would draft each token of a text from [cor. 3.6].

    Args:
      tokens: int32 [B, S], as in `prefill`.
      history: int32 [B, N], decoder tokens, the start token or the prompt first; causal, so
        what stands behind a row's end does not matter.
      first: int32 [B], place of the last token that was given.
      distribution: `Standardizer`.

    Returns:
      float32 [B, N - 1, V], of history[:, 1:].
    """
