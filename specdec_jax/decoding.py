"""The decoding loop [alg. 1]: draft, verify, commit, rewind, in one `lax.while_loop`.

A row's decoder tokens stand in `history`; the last committed one at `position`
is the next to be fed. An iteration drafts gamma tokens behind it, runs the target
once over the gamma + 1 tokens from `position` on, keeps what `verify` accepts and
its one further token, and moves `position`. Cache entries behind the new position
are stale; nothing removes them: reads are masked by absolute position and the next
block overwrites them. That is the whole rewind.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from specdec_jax.checks import whole
from specdec_jax.errors import SettingError
from specdec_jax.parallel.mesh import place_rows
from specdec_jax.results import Result, Stats, Status, Trace
from specdec_jax.rule import check_lenience, check_verification, verify, verify_greedy
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer

_MOST_KEYS = 2 ** 32 - 1  # seeds and ids are 32 bits of a random key


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
  """Everything static about a decode; gamma = 0 is plain decoding."""

  gamma: int
  max_decode_len: int
  sampling: Sampling
  lenience: float = 1.0
  verification: str = 'token'
  processors: tuple[Callable, ...] = ()
  trace: bool = False


class State(struct.PyTreeNode):
  """The loop's carry. B rows, N = given tokens + max_decode_len + gamma + 1 slots."""

  history: jax.Array  # int32 [B, N] decoder tokens, the given ones first
  position: jax.Array  # int32 [B] place of the last committed token, not yet in the caches
  status: jax.Array  # int32 [B]
  scores: jax.Array  # float32 [B]
  stats: Stats
  target_cache: Any
  drafter_state: Any
  trace: Trace | None  # as long as max_decode_len


def speculative_decode(target, drafter, tokens, *, gamma: int = 7, sampling: Sampling = Sampling(),
                       max_decode_len: int = 128, seed: int = 0, ids=None, lenience: float = 1.0,
                       verification: str = 'token', logits_processors: Sequence[Callable] = (),
                       lengths=None, trace: bool = False):
  """Decodes with drafts; for lenience 1 the text follows the target's own distribution exactly.

  A row's result depends on (seed, its id) alone, not on its place in a batch or on
  the other rows. At temperature 0 it is the target's greedy text.

  Args:
    target: the `Model` whose distribution is sampled.
    drafter: such as `ModelDrafter(draft)`.
    tokens: int [B, S], encoder tokens, 0-padded on the right; of a decoder-only model the prompts.
    gamma: draft tokens an iteration, at least 1.
    sampling: temperature, top-k and top-p, for both models.
    max_decode_len: most tokens a row may get, EOS counted.
    seed, ids: random keys come from (seed, ids[b]); ids int [B], by default 0 to B - 1.
    lenience: 1 is exact; less accepts more [app. A.5].
    verification: the acceptance rule.
    logits_processors: see `logits_processors`; applied to both models.
    lengths: int [B], tokens of each prompt of a decoder-only model (any id may be real); all S by default.
    trace: keep what each iteration drafted and accepted in `Result.trace`.

  Returns:
    `Result`, on the host.
  """
  gamma = whole('gamma', gamma, 1, hint=' (autoregressive_decode decodes without a draft)')
  check_lenience(lenience)
  check_verification(verification)
  drafter.check(target)
  settings = Settings(gamma=gamma, max_decode_len=max_decode_len, sampling=sampling, lenience=lenience,
                      verification=verification, processors=tuple(logits_processors), trace=trace)
  return _run(target, drafter, tokens, lengths, seed, ids, settings)


def autoregressive_decode(target, tokens, *, sampling: Sampling = Sampling(), max_decode_len: int = 128,
                          seed: int = 0, ids=None, logits_processors: Sequence[Callable] = (),
                          lengths=None):
  """The one-token baseline: the same loop without a draft. Arguments as `speculative_decode`."""
  settings = Settings(gamma=0, max_decode_len=max_decode_len, sampling=sampling,
                      processors=tuple(logits_processors))
  return _run(target, None, tokens, lengths, seed, ids, settings)


def _run(target, drafter, tokens, lengths, seed, ids, settings):
  tokens = target.check_tokens(tokens)
  settings = dataclasses.replace(
      settings, max_decode_len=whole('max_decode_len', settings.max_decode_len, 1))
  lengths = target.check_lengths(tokens, lengths, settings.max_decode_len)
  seed = np.uint32(whole('seed', seed, 0, _MOST_KEYS))
  ids = np.arange(len(tokens)) if ids is None else np.asarray(ids)
  if ids.shape != (len(tokens),) or not np.issubdtype(ids.dtype, np.integer):
    raise SettingError(f'ids must be {len(tokens)} integers, one a row of tokens, not '
                     f'{ids.dtype} of shape {list(ids.shape)}.')
  if ids.min() < 0 or ids.max() > _MOST_KEYS:
    raise SettingError(f'ids go from {ids.min()} to {ids.max()}; they must be 0 to {_MOST_KEYS}.')
  tokens, ids, lengths = place_rows((target, drafter), tokens, ids.astype(np.uint32), lengths)
  result = jax.device_get(decode_loop(target, drafter, tokens, seed, ids, settings, lengths))
  most = result.stats.target_calls.max()
  return result.replace(trace=jax.tree.map(lambda x: x[:, :most], result.trace))


@functools.partial(jax.jit, static_argnames='settings')
def decode_loop(target, drafter, tokens, seed, ids, settings: Settings, lengths=None) -> Result:
  """The compiled program: one device call for a whole batch."""
  standardizer = Standardizer(sampling=settings.sampling, num_rows=target.config.vocab_size,
            num_tokens=target.num_tokens, processors=settings.processors)
  # Not jax's default generator: under vmap, rbg's draws depend on the other rows.
  key = jax.random.key(seed, impl='threefry2x32')
  row_keys = jax.vmap(jax.random.fold_in, (None, 0))(key, ids)
  state = _start(target, drafter, tokens, lengths, settings)
  first = state.position
  state = lax.while_loop(
      lambda s: jnp.any(s.status == Status.RUNNING),
      lambda s: _iterate(target, drafter, standardizer, settings, row_keys, first, s), state)
  return _finish(state, first, settings)


def _start(target, drafter, tokens, lengths, settings: Settings) -> State:
  given, num_given = target.given(tokens, lengths)
  batch, longest = given.shape
  room = settings.max_decode_len + settings.gamma + 1  # a whole block fits behind the last position
  count, by_position = jnp.zeros(batch, jnp.int32), jnp.zeros((batch, settings.gamma), jnp.int32)
  with jax.named_scope('target_encoder'):
    target_cache = target.prefill(tokens, longest + room)
  with jax.named_scope('draft_encoder'):
    drafter_state = drafter.prefill(tokens, longest + room) if settings.gamma else None
  return State(
      history=jnp.pad(given, ((0, 0), (0, room))),
      position=num_given - 1,
      status=jnp.full(batch, Status.RUNNING, jnp.int32),
      scores=jnp.zeros(batch, jnp.float32),
      stats=Stats(target_calls=count, drafted=count, accepted=count, emitted=count,
                  accepted_by_position=by_position, drafted_by_position=by_position),
      target_cache=target_cache, drafter_state=drafter_state,
      trace=_empty_trace(batch, settings) if settings.trace else None)


def _empty_trace(batch, settings: Settings) -> Trace:
  count = jnp.zeros((batch, settings.max_decode_len), jnp.int32)
  return Trace(drafts=jnp.zeros((*count.shape, settings.gamma), jnp.int32), num_accepted=count,
               next_token=count, emitted=count)


def _iterate(target, drafter, standardizer, settings, row_keys, first, state: State) -> State:
  gamma = settings.gamma
  keys = jax.vmap(lambda k, p: jax.random.split(jax.random.fold_in(k, p)))(row_keys, state.position)
  draft_keys, verify_keys = keys[:, 0], keys[:, 1]

  block = jnp.take_along_axis(state.history, state.position[:, None], axis=1)  # [B, 1]
  history, drafter_state = state.history, state.drafter_state
  if gamma:
    with jax.named_scope('draft'):
      draft, q, drafter_state = drafter.propose(
          drafter_state, history, state.position, first, draft_keys, gamma, standardizer)
    block = jnp.concatenate([block, draft], axis=1)  # [B, gamma + 1]
    history = write_rows(history, draft, state.position + 1)

  with jax.named_scope('target'):
    logits, target_cache = target.step(state.target_cache, block, state.position)
    lengths = state.position[:, None] + 1 + jnp.arange(gamma + 1)
    processed = standardizer.process(logits, history, lengths, first)
    finite = jnp.isfinite(logits).all(-1) & jnp.isfinite(processed.max(-1))  # [B, gamma + 1]

    num_accepted, next_token = choose(
        standardizer, settings, processed, q if gamma else None, block[:, 1:], verify_keys)
  place = jnp.arange(gamma + 1)
  emitted = jnp.where(place < num_accepted[:, None], jnp.pad(block[:, 1:], ((0, 0), (0, 1))),
                      next_token[:, None])  # [B, gamma + 1], meant up to num_accepted

  length, status = _cut(emitted, num_accepted + 1, finite, target.eos_id, settings, state)
  return State(
      history=write_rows(history, emitted, state.position + 1),
      position=state.position + length,
      status=status,
      scores=state.scores + _log_probability(standardizer.mask(logits), emitted, length),
      stats=_count(state, status, length, num_accepted, settings),
      target_cache=target_cache, drafter_state=drafter_state,
      trace=_record(state, block[:, 1:], num_accepted, next_token, length) if settings.trace else None)


def _record(state: State, draft, num_accepted, next_token, length) -> Trace:
  """The trace with one more iteration of the rows that still run."""
  running = state.status == Status.RUNNING
  at = jnp.where(running, state.stats.target_calls, state.trace.emitted.shape[1])  # else dropped
  new = Trace(drafts=draft, num_accepted=num_accepted, next_token=next_token, emitted=length)
  return jax.tree.map(
      lambda kept, x: kept.at[jnp.arange(len(at)), at].set(x, mode='drop'), state.trace, new)


def choose(standardizer: Standardizer, settings: Settings, processed, q, draft, keys):
  """The rule for every row: how much of its draft stands, and the token behind that.

  Args:
    processed: float32 [B, gamma + 1, V], of `Distribution.process`.
    q: float32 [B, gamma, V]; None without a draft.
    draft: int32 [B, gamma].
    keys: typed keys [B].

  Returns:
    num_accepted and next_token, int32 [B] each.
  """
  if standardizer.sampling.greedy:
    rule = functools.partial(verify_greedy, lenience=settings.lenience)
    return jax.vmap(rule)(processed, draft)
  if not settings.gamma:
    next_token, _ = standardizer.sample(processed[:, 0], keys)
    return jnp.zeros_like(next_token), next_token
  rule = functools.partial(verify, lenience=settings.lenience, verification=settings.verification)
  return jax.vmap(rule)(standardizer.sampling.probabilities(processed), q, draft, keys)


def _cut(emitted, length, finite, eos_id, settings, state: State):
  """How much of a block a row keeps, and how the row stands after it: int32 [B] each.

  A row ends with the first EOS of its block, with its budget, or before the first
  position whose logits or distribution are not finite, whichever is first.
  """
  place = jnp.arange(emitted.shape[1], dtype=jnp.int32)
  none = emitted.shape[1] + 1  # past any block
  first_place = lambda found: jnp.min(jnp.where(found, place, none), axis=1)
  until_bad = first_place(~finite)
  until_eos = first_place(emitted == eos_id) + 1
  budget = settings.max_decode_len - state.stats.emitted

  kept = jnp.minimum(jnp.minimum(length, until_eos), jnp.minimum(budget, until_bad))
  status = jnp.where(kept == budget, Status.LENGTH, Status.RUNNING)
  status = jnp.where(kept == until_eos, Status.EOS, status)
  status = jnp.where((until_bad < length) & (kept == until_bad) & (status == Status.RUNNING),
                     Status.NON_FINITE, status)
  running = state.status == Status.RUNNING
  return jnp.where(running, kept, 0), jnp.where(running, status, state.status).astype(jnp.int32)


def _count(state: State, status, length, num_accepted, settings) -> Stats:
  """Statistics after a block of which `length` tokens were emitted."""
  stats, gamma = state.stats, settings.gamma
  running = state.status == Status.RUNNING
  useful = jnp.minimum(gamma, settings.max_decode_len - stats.emitted)
  cut_short = (status == Status.EOS) | (status == Status.NON_FINITE)
  useful = jnp.where(cut_short, jnp.minimum(useful, length), useful)
  useful = jnp.where(running, useful, 0)
  accepted = jnp.minimum(num_accepted, length)
  return Stats(
      target_calls=stats.target_calls + running,
      drafted=stats.drafted + useful,
      accepted=stats.accepted + accepted,
      emitted=stats.emitted + length,
      accepted_by_position=stats.accepted_by_position + (jnp.arange(gamma) < accepted[:, None]),
      drafted_by_position=stats.drafted_by_position + (jnp.arange(gamma) < useful[:, None]))


def _log_probability(logits, tokens, length):
  """Sum over each row's first `length` tokens of their log-probability: float32 [B]."""
  chosen = jnp.take_along_axis(logits, tokens[..., None], -1)[..., 0]
  log_probs = chosen - jax.nn.logsumexp(logits, axis=-1)
  return jnp.where(jnp.arange(tokens.shape[1]) < length[:, None], log_probs, 0.0).sum(1)


def write_rows(rows, block, positions):
  """Writes block [B, T] into rows [B, N] from each row's own position [B]."""
  return jax.vmap(lambda row, new, at: lax.dynamic_update_slice(row, new, (at,)))(
      rows, block, positions)


def _finish(state: State, first, settings: Settings) -> Result:
  place = jnp.arange(settings.max_decode_len)
  tokens = jnp.take_along_axis(state.history, first[:, None] + 1 + place, axis=1)
  lengths = state.stats.emitted
  return Result(tokens=jnp.where(place < lengths[:, None], tokens, 0), lengths=lengths,
                status=state.status, scores=state.scores, stats=state.stats, trace=state.trace)
