"""The decoding loop [alg. 1]: draft, verify, commit, rewind, in one `lax.while_loop`.

A row's decoder tokens stand in its history; the last committed one, the root, at `position` is the next to be
fed. An iteration drafts a tree of candidates after it (a chain of gamma tokens in the paper), runs the target once
over the root and the tree's nodes, keeps the path that the rule accepts and its one further token, and moves
`position`. Cache entries after the new position are stale; nothing removes them: reads are masked by absolute
position and the next block overwrites them. That is the whole rewind.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax import compilation, rule
from specdec_jax.decoding import commit
from specdec_jax.decoding.settings import Settings
from specdec_jax.decoding.state import State, finish, hidden_after, start
from specdec_jax.drafters.interface import Proposal, Request, Text, for_target, wants_hidden
from specdec_jax.drafters.levels import process_nodes
from specdec_jax.results import Result
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import ROOT, Tree
from specdec_jax.tree_layout import layout


@functools.partial(compilation.jit, static_argnames='settings')
def decode_loop(target, drafter, request: Request, seed: jax.Array, ids: jax.Array, standardizer: Standardizer,
                lenience: jax.Array, settings: Settings) -> Result:
  """The compiled program: one device call for a whole batch.

  Args:
    target: the `Model`.
    drafter: None in plain decoding.
    request: B inputs, of `settings.num_samples` rows each.
    seed: uint32 scalar.
    ids: uint32 [B].
    standardizer: of the target's vocabulary.
    lenience: float32 scalar, used where `settings.lenient`.
    settings: static.
  """
  state = start(target, drafter, request, seed, ids, settings, settings.room)
  state, _ = advance(target, drafter, standardizer, lenience, settings, state, len(state.status))
  return finish(state, settings)


def advance(target, drafter, standardizer: Standardizer, lenience, settings: Settings, state: State,
            until, most: int | None = None) -> tuple[State, jax.Array]:
  """Iterates until at least so many rows have ended: all of a batch, or some where others take their places.

  Args:
    target, drafter, standardizer, lenience, settings: as in `decode_loop`.
    state: of B rows.
    until: int32 scalar of at most B; rows that had ended before count.
    most: iterations, where there is a limit.

  Returns:
    The state, and the number of iterations, int32.
  """
  def goes_on(carry):
    waits = jnp.sum(~carry[0].running, dtype=jnp.int32) < until
    return waits if most is None else waits & (carry[1] < most)

  def step(carry):
    state, iterations = carry
    return iterate(target, drafter, standardizer, lenience, settings, state), iterations + jnp.int32(1)

  return lax.while_loop(goes_on, step, (state, jnp.int32(0)))


def iterate(target, drafter, standardizer: Standardizer, lenience, settings: Settings, state: State) -> State:
  """One iteration of every row; rows that have ended stay as they are."""
  text, tree = state.text, settings.tree
  keys = jax.vmap(lambda k, p: jax.random.split(jax.random.fold_in(k, p)))(state.keys, text.position)
  draft_keys, verify_keys = keys[:, 0], keys[:, 1]
  proposal, drafter_state = None, state.drafter_state
  if tree is not None:
    with jax.named_scope('draft'):
      proposal, drafter_state = for_target(drafter, target).propose(
          state.drafter_state, text, tree, draft_keys, standardizer)

  with jax.named_scope('target'):
    (logits, target_cache, block), hidden = target_pass(
        target, state.target_cache, text, proposal, tree, wants_hidden(drafter))
    processed = process_pass(standardizer, logits, text, proposal, tree)
    path, num_accepted, next_token = choose(
        standardizer, lenience, settings, processed, proposal, verify_keys)
    if block is not None:  # the path's entries come to the places of its tokens
      target_cache = target.commit(target_cache, block, path + 1, text.position + 1)

  kept = commit.keep(target.eos_ids, settings, state, logits, standardizer.mask, processed, proposal, path,
                     num_accepted, next_token)
  if hidden is not None and text.hidden is not None:
    hidden = hidden_after(text.hidden, hidden, path, kept.length)
  return state.replace(
      text=text.replace(history=commit.write_rows(text.history, kept.emitted, text.position + 1),
                        position=text.position + kept.length, hidden=hidden),
      status=kept.status, scores=state.scores + kept.scores,
      stats=commit.count(settings, state, kept, path, num_accepted),
      target_cache=target_cache, drafter_state=drafter_state,
      trace=commit.record(state, proposal, path, num_accepted, next_token, kept))


def target_pass(target, cache, text: Text, proposal: Proposal | None, tree: Tree | None,
                tells: bool = False) -> tuple[tuple[Any, Any, Any], Any]:
  """Feeds the root and the nodes: raw logits [B, M + 1, V'], the cache, and a tree's own keys and values.

  A chain's entries are in place as they are written, and the last is None; a tree's lie side by side, and
  `Model.commit` brings those of a path into place. Beside them stand the last hidden states [B, M + 1, E] where the
  pass `tells` them, else None.
  """
  def run(method: str, *args):
    if not tells:
      return getattr(target, method)(cache, *args), None
    result, told = target.with_hidden(method, cache, *args)
    return result, told.last

  root = jnp.take_along_axis(text.history, text.position[:, None], axis=1)  # [B, 1]
  if tree is None or proposal is None:
    result, hidden = run('step', root, text.position)
    return (*result, None), hidden
  tokens = jnp.concatenate([root, jnp.maximum(proposal.tokens, 0)], axis=1)
  if tree.is_chain:
    result, hidden = run('step', tokens, text.position)
    return (*result, None), hidden
  depths = np.append(0, tree.depths)
  sees = np.pad(tree.ancestors, ((1, 0), (1, 0)))
  sees[:, 0] = True  # the root
  key_positions, visible = layout(text.position, depths, sees, text.history.shape[1])
  return run('tree_step', tokens, text.position[:, None] + depths, text.position, key_positions, visible)


def process_pass(standardizer: Standardizer, logits, text: Text, proposal: Proposal | None, tree: Tree | None):
  """`Standardizer.process` after the root and each node, float32 [B, M + 1, V]."""
  if tree is None or proposal is None:
    return standardizer.process(logits, text.history, text.position[:, None] + 1, text.prefix_end)
  nodes = np.arange(ROOT, tree.num_nodes)
  return process_nodes(standardizer, logits, text, tree, nodes, proposal.tokens)


def choose(standardizer: Standardizer, lenience, settings: Settings, processed, proposal: Proposal | None, keys):
  """The rule for every row: which of the draft stands, and the token after that.

  Args:
    standardizer, lenience, settings: as in `decode_loop`.
    processed: float32 [B, M + 1, V], of `process_pass`.
    proposal: None without a draft.
    keys: typed keys [B].

  Returns:
    The accepted path, int32 [B, depth], of which the first num_accepted nodes count; num_accepted and
    next_token, int32 [B] each.
  """
  if settings.tree is None or proposal is None:
    next_token, _ = standardizer.sample(processed[:, 0], keys)
    return jnp.zeros((len(next_token), 0), jnp.int32), jnp.zeros_like(next_token), next_token
  if standardizer.greedy:
    greedy = lambda logits, tokens: rule.verify_greedy_tree(
        logits, tokens, settings.tree, lenience if settings.lenient else None)
    return jax.vmap(greedy)(processed, proposal.tokens)
  p = standardizer.probabilities(processed)
  if settings.verification == 'block':
    return _block(p, processed, proposal, standardizer, keys)
  lenience = lenience if settings.lenient else 1.0
  one = lambda p, q, tokens, key: rule.verify_tree(p, q, tokens, settings.tree, key, lenience)
  return jax.vmap(one, (0, None if proposal.q is None else 0, 0, 0))(p, proposal.q, proposal.tokens, keys)


def _block(p, processed, proposal: Proposal, standardizer: Standardizer, keys):
  """Block verification of a chain, cut before what is not finite and after an EOS."""
  tokens = proposal.tokens
  gamma = tokens.shape[1]
  q = proposal.q
  if q is None:
    q = jax.nn.one_hot(tokens, p.shape[-1], dtype=jnp.float32)
  finite = jnp.isfinite(processed.max(-1)[:, :-1]) & (tokens >= 0)
  ends = jnp.isin(tokens, jnp.array(standardizer.eos_ids))
  before = jnp.cumprod(finite, axis=1, dtype=jnp.int32).sum(1, dtype=jnp.int32)
  until_eos = jnp.where(ends.any(1), jnp.argmax(ends, axis=1) + 1, gamma)
  length = jnp.minimum(before, until_eos)
  tokens = jnp.maximum(tokens, 0)
  num_accepted, next_token = jax.vmap(rule.verify_block)(p, q, tokens, keys, length)
  path = jnp.broadcast_to(jnp.arange(gamma, dtype=jnp.int32), tokens.shape)
  return path, num_accepted, next_token
