"""Speculative beam search [app. A.4]: the plain search's result in fewer calls of the target.

An iteration grows a tree: the draft continues the target's W live beams for gamma
steps, u >= W hypotheses each. One pass of the target scores every node. Then the
target's own search is replayed on those scores, step by step, for as long as all of
its live beams are nodes of the tree; the step after that is known too. So an
iteration takes 1 to gamma + 1 steps, each exactly as the plain search would.
"""

from typing import Any

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from specdec_jax.beam import state as beam_state, tree as beam_tree
from specdec_jax.beam.results import BeamStats
from specdec_jax.beam.state import pick
from specdec_jax.results import Status


class DraftedSearchState(struct.PyTreeNode):
  """The loop's carry; one cache row for all beams of an input."""

  beams: beam_state.Beams
  lineage: beam_tree.Lineage
  stats: BeamStats
  target_cache: Any
  draft_cache: Any


def speculative_loop(target, draft, standardizer, tokens, alpha, beams: beam_state.Beams, draft_beams: int,
                     gamma: int):
  """Runs the search to its end: the beams and `BeamStats`."""
  batch, width, room = beams.tokens.shape
  layout = beam_tree.Layout(width, draft_beams, gamma, room - 1)
  none = jnp.zeros(batch, jnp.int32)
  state = DraftedSearchState(
      beams=beams, lineage=beam_tree.Lineage.start(batch, layout),
      stats=BeamStats(target_calls=none, steps=none, drafted=none, accepted=none),
      target_cache=target.prefill(tokens, layout.slot + layout.size),
      draft_cache=draft.prefill(tokens, layout.slot + layout.size))
  state = lax.while_loop(lambda s: jnp.any(s.beams.running),
                         lambda s: _iterate(target, draft, standardizer, alpha, layout, s), state)
  return state.beams, state.stats


def _iterate(target, draft, standardizer, alpha, layout, state: DraftedSearchState) -> DraftedSearchState:
  beams, lineage, width = state.beams, state.lineage, layout.width
  tree, draft_cache, draft_block = _draft(draft, standardizer, target.eos_ids, layout, state)
  logits, target_cache, block = beam_tree.feed(
      target, state.target_cache, tree, lineage, beams.step, layout, width, layout.size - width, 1)
  found = beam_state.candidates(logits, standardizer, width)
  after, lineage, nodes = _replay(beams, lineage, tree, found, layout, target.eos_ids, alpha)

  first = jnp.broadcast_to(jnp.arange(width), nodes[:, :1].shape)
  draft_nodes = jnp.concatenate([first, nodes[:, :-1]], axis=1)
  flat = lambda n: n.reshape(n.shape[0], -1)
  return DraftedSearchState(
      beams=after, lineage=lineage, stats=_count(beams, after, state.stats, layout),
      target_cache=target.commit(target_cache, block, flat(nodes - width), (beams.step + 1) * width),
      draft_cache=draft.commit(draft_cache, draft_block, flat(draft_nodes), beams.step * width))


def _draft(draft, standardizer, eos_ids, layout, state: DraftedSearchState):
  """The tree with all its levels, the draft's cache, and what was written there: all levels but the last."""
  beams, lineage, width = state.beams, state.lineage, layout.width
  tree = beam_tree.plant(beams, lineage, layout)
  feed = lambda cache, tree, start, count: beam_tree.feed(
      draft, cache, tree, lineage, beams.step, layout, start, count, 0)
  # The draft has not been fed the last two tokens where all levels were accepted.
  logits, cache, block = feed(state.draft_cache, tree, 0, 2 * width)
  parents, tokens, scores = _continue(logits[:, width:], beams.log_probs, standardizer, eos_ids, layout)
  tree = beam_tree.grow(tree, layout.level(1), width + parents, tokens)

  def one(carry, i):
    cache, tree, scores = carry
    logits, cache, block = feed(cache, tree, layout.level(i), layout.drafted)
    parents, tokens, scores = _continue(logits, scores, standardizer, eos_ids, layout)
    tree = beam_tree.grow(tree, layout.level(i + 1), layout.level(i) + parents, tokens)
    return (cache, tree, scores), block

  (cache, tree, _), levels = lax.scan(one, (cache, tree, scores), jnp.arange(1, layout.gamma))
  return tree, cache, jax.tree.map(_join, block, levels)


def _join(first, levels):
  """Blocks [B, H, n, D] of the first nodes and [L, B, H, u, D] of the levels that follow -> [B, H, n + L u, D]."""
  levels = levels.transpose(1, 2, 0, 3, 4)
  return jnp.concatenate([first, levels.reshape(*first.shape[:2], -1, first.shape[3])], axis=2)


def _continue(logits, scores, standardizer, eos_ids, layout):
  """The u hypotheses that the draft takes to follow n others.

  The first W continue the first W: the draft's own search of width W from the target's
  beams, so that a draft equal to the target is always accepted. The rest are the best of
  all others. Texts that end need no node: EOS is left out.

  Args:
    logits: float [B, n, V'], raw.
    scores: float32 [B, n], log-probabilities of the n.

  Returns:
    parents (0 to n - 1), tokens (int32) and log-probabilities (float32), [B, u] each.
  """
  batch, width, drafted = logits.shape[0], layout.width, layout.drafted
  log_q = jax.nn.log_softmax(standardizer.mask(logits))
  ids = jnp.arange(log_q.shape[-1])
  log_q = jnp.where(jnp.isin(ids, jnp.array(eos_ids)) | jnp.isnan(log_q), -jnp.inf, log_q)
  best, tokens = lax.top_k(log_q, drafted)
  totals = scores[..., None] + best
  _, own = lax.top_k(totals[:, :width].reshape(batch, -1), width)
  totals = totals.reshape(batch, -1)
  left = jax.vmap(lambda t, taken: t.at[taken].set(-jnp.inf))(totals, own)
  place = jnp.concatenate([own, lax.top_k(left, drafted - width)[1]], axis=1)
  chosen = pick(totals, place)
  # A hypothesis that nothing follows is fed a token that every model has.
  tokens = jnp.where(chosen == -jnp.inf, 0, pick(tokens.reshape(batch, -1), place))
  return place // drafted, tokens, chosen


def _replay(beams, lineage, tree, found, layout, eos_ids, alpha):
  """The target's search over the scores of the tree: 1 to gamma + 1 steps in running rows.

  Returns:
    The beams and lineage afterwards, and the nodes of the live beams before each step,
    int32 [B, gamma + 1, W], meant up to the number of steps.
  """
  batch, width = beams.log_probs.shape
  levels = lambda values: jnp.pad(  # nothing is drafted after the last level
      values[:, layout.level(1):], ((0, 0), (0, layout.drafted)), constant_values=-1,
  ).reshape(batch, layout.gamma + 1, layout.drafted).transpose(1, 0, 2)

  def one(carry, level):
    beams, lineage, nodes, going = carry
    i, parents, tokens = level
    of_nodes = jax.tree.map(lambda values: pick(values, nodes - width), found)
    after, parent = beam_state.advance(beams, of_nodes, going, eos_ids, alpha)
    moved = after.step > beams.step
    lineage = beam_state.where(moved, lineage.descend(beams, parent), lineage)
    same = (parents[:, None] == pick(nodes, parent)[..., None]) & (
        tokens[:, None] == after.last[..., None])  # [B, W, u]
    there = same.any(-1) | ~jnp.isfinite(after.log_probs)
    going = moved & after.running & there.all(1)
    return (after, lineage, layout.level(i) + jnp.argmax(same, axis=-1), going), nodes

  live = jnp.broadcast_to(width + jnp.arange(width), (batch, width))
  (beams, lineage, _, _), nodes = lax.scan(
      one, (beams, lineage, live, beams.running),
      (jnp.arange(1, layout.gamma + 2), levels(tree.parents), levels(tree.tokens)))
  return beams, lineage, nodes.transpose(1, 0, 2)


def _count(before, after, stats: BeamStats, layout) -> BeamStats:
  """Statistics after an iteration."""
  taken = after.step - before.step
  accepted = jnp.maximum(taken - 1, 0)
  useful = jnp.minimum(layout.gamma, layout.max_decode_len - before.step - 1)
  ended = (after.status == Status.EOS) | (after.status == Status.NON_FINITE)
  useful = jnp.where(ended, accepted, useful)
  return BeamStats(
      target_calls=stats.target_calls + before.running, steps=stats.steps + taken,
      drafted=stats.drafted + jnp.where(before.running, useful, 0),
      accepted=stats.accepted + accepted)
