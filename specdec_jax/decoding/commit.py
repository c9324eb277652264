"""What is kept of a verified block, how each row stands after it, and what is counted."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from specdec_jax.decoding.settings import Settings
from specdec_jax.decoding.state import State
from specdec_jax.drafters.interface import Proposal
from specdec_jax.results import Stats, Status, Trace


class Kept(struct.PyTreeNode):
  """What an iteration adds to each row; D = depth of the tree.

  Attributes:
    emitted: int32 [B, D + 1], the accepted tokens and the next one; only the first `length` count.
    length: int32 [B], how many tokens the row gets; 0 where it has ended.
    status: int32 [B], after them.
    scores: float32 [B], log-probability of these tokens under the target's distribution at temperature 1.
  """

  emitted: jax.Array
  length: jax.Array
  status: jax.Array
  scores: jax.Array


def keep(eos_ids, settings: Settings, state: State, logits, mask: Callable, processed, proposal: Proposal | None,
         path, num_accepted, next_token) -> Kept:
  """Cuts each row's block where the row ends.

  A row ends with the first EOS of its block, with its budget, or before the first position whose logits
  or distribution are not finite, whichever is first.

  Args:
    eos_ids: the tokens that end a text.
    settings, state: of the loop.
    logits, processed: float32 [B, M + 1, V], raw and of `Standardizer.process`.
    mask: `Standardizer.mask`.
    proposal, path, num_accepted, next_token: of the drafter and of `loop.choose`.
  """
  depth = settings.depth
  place = jnp.arange(depth + 1, dtype=jnp.int32)
  on_path = lambda rows: jax.vmap(lambda row, nodes: row[nodes])(rows, jnp.pad(path + 1, ((0, 0), (1, 0))))
  finite = on_path(jnp.isfinite(logits).all(-1) & jnp.isfinite(processed.max(-1)))  # [B, D + 1]
  emitted = next_token[:, None]
  if proposal is not None:
    drafted = jnp.take_along_axis(proposal.tokens, path, axis=1)
    emitted = jnp.where(place < num_accepted[:, None], jnp.pad(drafted, ((0, 0), (0, 1))), emitted)

  none = depth + 2  # past any block
  first_place = lambda found: jnp.min(jnp.where(found, place, none), axis=1)
  until_bad = first_place(~finite)
  until_eos = first_place(jnp.isin(emitted, jnp.array(eos_ids, jnp.int32))) + 1
  meant, budget = num_accepted + 1, settings.max_decode_len - state.stats.emitted
  length = jnp.minimum(jnp.minimum(meant, until_eos), jnp.minimum(budget, until_bad))
  status = jnp.where(length == budget, Status.LENGTH, Status.RUNNING)
  status = jnp.where(length == until_eos, Status.EOS, status)
  status = jnp.where((until_bad < meant) & (length == until_bad) & (status == Status.RUNNING),
                     Status.NON_FINITE, status)
  length = jnp.where(state.running, length, 0)
  status = jnp.where(state.running, status, state.status).astype(jnp.int32)
  return Kept(emitted=emitted, length=length, status=status,
              scores=_log_probability(mask(on_path(logits)), emitted, length))


def count(settings: Settings, state: State, kept: Kept, path, num_accepted) -> Stats:
  """Statistics after a block of which `kept.length` tokens were emitted."""
  stats, depth = state.stats, settings.depth
  levels = jnp.minimum(depth, settings.max_decode_len - stats.emitted)  # that could still be emitted
  cut_short = (kept.status == Status.EOS) | (kept.status == Status.NON_FINITE)
  levels = jnp.where(cut_short, jnp.minimum(levels, kept.length), levels)
  levels = jnp.where(state.running, levels, 0)
  accepted = jnp.minimum(num_accepted, kept.length)
  at = jnp.arange(depth)
  stats = stats.replace(
      target_calls=stats.target_calls + state.running,
      accepted=stats.accepted + accepted,
      emitted=stats.emitted + kept.length,
      accepted_by_position=stats.accepted_by_position + (at < accepted[:, None]))
  if settings.tree is None:
    return stats
  tree = settings.tree
  nodes_by_level = jnp.asarray([len(level) for level in tree.levels], jnp.int32)
  drafted = jnp.where(at < levels[:, None], nodes_by_level, 0)
  stats = stats.replace(drafted=stats.drafted + drafted.sum(1, dtype=jnp.int32),
                        drafted_by_position=stats.drafted_by_position + drafted)
  # Of the nodes that the rule came to, the root included, those whose children could still be emitted.
  came_to = jnp.pad(path + 1, ((0, 0), (1, 0)))[:, :depth]  # [B, D], row of `children`
  usable = at < jnp.minimum(levels, accepted + 1)[:, None]
  offered = jnp.asarray(tree.children >= 0)[came_to] & usable[..., None]  # [B, D, C]
  taken = jax.nn.one_hot(jnp.asarray(tree.ranks)[path], tree.max_children, dtype=jnp.int32)
  taken = taken * (at < accepted[:, None])[..., None]
  return stats.replace(accepted_by_rank=stats.accepted_by_rank + taken.sum(1, dtype=jnp.int32),
                       offered_by_rank=stats.offered_by_rank + offered.sum(1, dtype=jnp.int32))


def record(state: State, proposal: Proposal | None, path, num_accepted, next_token, kept: Kept) -> Trace | None:
  """The trace with one more iteration of the rows that still run; None where none is kept."""
  if state.trace is None:
    return None
  at = jnp.where(state.running, state.stats.target_calls, state.trace.emitted.shape[1])  # else dropped
  drafts = jnp.zeros((len(at), 0), jnp.int32) if proposal is None else proposal.tokens
  new = Trace(drafts=drafts, path=path, num_accepted=num_accepted, next_token=next_token, emitted=kept.length)
  return jax.tree.map(
      lambda old, x: old.at[jnp.arange(len(at)), at].set(x, mode='drop'), state.trace, new)


def write_rows(rows, block, positions):
  """Writes block [B, T] into rows [B, N] from each row's own position [B]."""
  return jax.vmap(lambda row, new, at: lax.dynamic_update_slice(row, new, (at,)))(
      rows, block, positions)


def _log_probability(logits, tokens, length):
  """Sum over each row's first `length` tokens of their log-probability: float32 [B]."""
  chosen = jnp.take_along_axis(logits, tokens[..., None], -1)[..., 0]
  log_probs = chosen - jax.nn.logsumexp(logits, axis=-1)
  return jnp.where(jnp.arange(tokens.shape[1]) < length[:, None], log_probs, 0.0).sum(1)
