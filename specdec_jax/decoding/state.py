"""What the loop carries from one iteration to the next: rows that do not know of each other."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from specdec_jax.decoding.settings import Settings
from specdec_jax.drafters.interface import Request, Text, for_target, wants_hidden
from specdec_jax.models.hidden import Hidden
from specdec_jax.results import Result, Stats, Status, Trace

_SAMPLES = 2 ** 32 - 1  # no position of a text: an iteration's keys come from these


class State(struct.PyTreeNode):
  """The loop's carry: B rows in every array, so that a row can be taken out and another put in its place.

  N = given tokens + `Settings.room` slots, of the history as of the caches.

  Attributes:
    text: history, position of the last committed token (which is not yet in the caches), the prefix's end, and the
      target's hidden states for a drafter that wants them.
    keys: typed keys [B], of the row's seed and id; an iteration's come from them and the position.
    status: int32 [B], see `Status`.
    scores: float32 [B], log-probability (nats) of the emitted tokens.
    stats: see `Stats`.
    target_cache: of the target.
    drafter_state: of the drafter; None in plain decoding.
    trace: as long as max_decode_len; None where it was not asked for.
  """

  text: Text
  keys: jax.Array
  status: jax.Array
  scores: jax.Array
  stats: Stats
  target_cache: Any
  drafter_state: Any
  trace: Trace | None

  @property
  def running(self) -> jax.Array:
    """bool [B]."""
    return self.status == Status.RUNNING


def row_keys(seed: jax.Array, ids: jax.Array) -> jax.Array:
  """Typed keys [B] of uint32 seed [] and ids [B]."""
  # Not jax's default generator: under vmap, rbg's numbers depend on the other rows.
  key = jax.random.key(seed, impl='threefry2x32')
  return jax.vmap(jax.random.fold_in, (None, 0))(key, ids)


def sample_keys(keys: jax.Array, samples: jax.Array) -> jax.Array:
  """Typed keys [B] of a sample of each row, int32 [B], whose own keys are given; sample 0 has the row's own key."""
  def one(key, sample):
    return jnp.where(sample == 0, key, jax.random.fold_in(jax.random.fold_in(key, _SAMPLES), sample))

  return jax.vmap(one)(keys, samples)


def start(target, drafter, request: Request, seed: jax.Array, ids: jax.Array, settings: Settings,
          room: int) -> State:
  """Encodes the inputs, once per model, and makes empty caches and counts: rows b0 s0, b0 s1, ... of several samples.

  Args:
    target, drafter, request, seed, ids, settings: as in `loop.decode_loop`.
    room: slots after what is given; `settings.room` of rows that are to run, 0 of those that `put` will place.
  """
  prefix, prefix_lengths = target.decoder_prefix(
      request.tokens, request.lengths, request.given, request.given_lengths)
  num_slots, times, keys = prefix.shape[1] + room, settings.num_samples, row_keys(seed, ids)
  with jax.named_scope('target_encoder'):
    if wants_hidden(drafter):
      target_cache, told = target.prefilled_with_hidden(request.tokens, num_slots, request.given)
      request = request.replace(hidden=told)
    else:
      target_cache = target.prefilled(request.tokens, num_slots, request.given)
  with jax.named_scope('draft_encoder'):
    drafter_state = for_target(drafter, target).prefill(request, num_slots) if settings.tree else None
  hidden = None if request.hidden is None else hidden_before(request.hidden, prefix_lengths - 1, settings.depth + 1)
  if times > 1:
    target_cache = target.repeated(target_cache, times)
    prefix, prefix_lengths, drafter_state, hidden = jax.tree.map(
        lambda x: jnp.repeat(x, times, axis=0), (prefix, prefix_lengths, drafter_state, hidden))
    inputs, samples = np.divmod(np.arange(len(prefix)), times)
    keys = sample_keys(keys[inputs], jnp.asarray(samples, jnp.int32))
  batch = len(prefix)
  return State(
      text=Text(history=jnp.pad(prefix, ((0, 0), (0, room))), position=prefix_lengths - 1,
                prefix_end=prefix_lengths - 1, hidden=hidden),
      keys=keys,
      status=jnp.full(batch, int(Status.RUNNING), jnp.int32),
      scores=jnp.zeros(batch, jnp.float32),
      stats=Stats.zeros(batch, settings.tree),
      target_cache=target_cache, drafter_state=drafter_state,
      trace=Trace.zeros(batch, settings.max_decode_len, settings.tree) if settings.trace else None)


def hidden_before(told: Hidden, position: jax.Array, places: int) -> jax.Array:
  """`Text.hidden` of so many places at the start of a decode: [B, places, E].

  Args:
    told: of the prefill. It has no last hidden states where there was nothing but the start token.
    position: int32 [B], of the root.
  """
  if told.last is None:
    assert told.encoded is not None
    return jnp.zeros((len(position), places, told.encoded.shape[-1]), told.encoded.dtype)
  padded = jnp.pad(told.last, ((0, 0), (places, 0), (0, 0)))
  return rows_from(padded, position, places)


def hidden_after(before: jax.Array, block: jax.Array, path: jax.Array, length: jax.Array) -> jax.Array:
  """`Text.hidden` after a block: the places before it moved up by as many tokens as the row got.

  Args:
    before: [B, D + 1, E], of the text before.
    block: [B, M + 1, E], of the root and the nodes that the target was run on.
    path: int32 [B, D], the accepted nodes.
    length: int32 [B], how many tokens were emitted.
  """
  on_path = jax.vmap(lambda row, nodes: row[nodes])(block, jnp.pad(path + 1, ((0, 0), (1, 0))))
  return rows_from(jnp.concatenate([before, on_path.astype(before.dtype)], axis=1), length, before.shape[1])


def rows_from(values: jax.Array, start: jax.Array, count: int) -> jax.Array:
  """Of each row [N, ...] the `count` places from start [B] on."""
  return jax.vmap(lambda row, at: lax.dynamic_slice_in_dim(row, at, count))(values, start)


def idle(shapes: State) -> State:
  """As many rows as the shapes have, none of which runs."""
  def nothing(x):
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
      return row_keys(jnp.uint32(0), jnp.zeros(x.shape, jnp.uint32))
    return jnp.zeros(x.shape, x.dtype)

  state = jax.tree.map(nothing, shapes)
  return state.replace(status=jnp.full(shapes.status.shape, int(Status.LENGTH), jnp.int32))


def put(state: State, new: State, chosen: jax.Array, samples: jax.Array, rows: jax.Array) -> State:
  """Puts rows in the places of rows that have ended, of which nothing stays.

  Args:
    state: of B rows.
    new: rows from `start`, of inputs that may be shorter, with room or without: what their arrays are smaller by is
      filled up with zeros, which are no tokens and nothing that is seen.
    chosen: int32 [n], which of the new rows; one may come several times.
    samples: int32 [n], which sample of its input each is.
    rows: int32 [n], the places that they get; B drops one.
  """
  def one(old, taken):
    widths = [(0, 0), *((0, b - a) for a, b in zip(taken.shape[1:], old.shape[1:]))]
    return old.at[rows].set(jnp.pad(taken, widths) if any(after for _, after in widths) else taken, mode='drop')

  taken = jax.tree.map(lambda x: x[chosen], new)
  return jax.tree.map(one, state, taken.replace(keys=sample_keys(taken.keys, samples)))


def finish(state: State, settings: Settings) -> Result:
  """What the rows have come to."""
  place = jnp.arange(settings.max_decode_len)
  at = state.text.prefix_end[:, None] + 1 + place
  tokens = jnp.take_along_axis(state.text.history, at, axis=1)
  lengths = state.stats.emitted
  return Result(tokens=jnp.where(place < lengths[:, None], tokens, 0), lengths=lengths,
                status=state.status, scores=state.scores, stats=state.stats, trace=state.trace)
