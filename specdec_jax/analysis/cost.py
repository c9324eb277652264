"""c and the verify cost, by timing an iteration and its parts in one run.

The draft's time is what it adds to an iteration: run by itself, its weights would stay in a
processor's caches, from which the target's pass drives them out in a decode.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax

from specdec_jax.decoding import Settings, choose, write_rows
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer

_MOST_CALLS = 1 << 20  # of a part that takes no time at all, such as a table's prefill


class Ratios:
  """What follows from the seconds draft_step, target_step and verify_pass."""

  @property
  def c(self) -> float:
    """Draft step over target step [§3.3]."""
    return self.draft_step / self.target_step

  @property
  def verify_cost(self) -> float:
    """(gamma + 1)-token pass over one-token pass; the paper takes it to be 1."""
    return self.verify_pass / self.target_step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost(Ratios):
  """Times in seconds, medians; every pass includes its distributions and draws, as in a decode.

  Attributes:
    gamma: draft length.
    draft_step: one draft token: what a proposal of gamma tokens adds to the pass, divided by gamma.
    target_step: the target's one-token pass.
    verify_pass: the target's (gamma + 1)-token pass with the acceptance rule.
    target_encoder, draft_encoder: what precedes the first iteration.
  """

  gamma: int
  draft_step: float
  target_step: float
  verify_pass: float
  target_encoder: float
  draft_encoder: float

  @property
  def slope(self) -> float:
    """What one more draft token costs, over a target step: c where verifying is free.

    The verify cost is taken to grow linearly from 1 at gamma = 0, so thm 3.8 with
    this in place of c finds the best gamma.
    """
    return max(self.c + (self.verify_cost - 1) / self.gamma, 0.0)

  def decode_seconds(self, iterations: float) -> float:
    """What a speculative decode should take: the encoders and so many iterations."""
    iteration = self.gamma * self.draft_step + self.verify_pass
    return self.target_encoder + self.draft_encoder + iterations * iteration


def measure(target, drafter, tokens, gammas: Sequence[int] = (7,), sampling: Sampling = Sampling(),
            *, max_decode_len: int = 128, position: int | None = None, rounds: int = 5,
            seconds: float = 0.1) -> dict[int, Cost]:
  """Times the parts of an iteration on real models, lengths and caches.

  Each part, and an iteration as a whole, runs inside one compiled loop; they take
  turns over several rounds, so that a slow spell of the machine meets them all.

  Args:
    target, drafter: as in `speculative_decode`.
    tokens: int [B, S], encoder tokens or prompts of a typical batch.
    gammas: draft lengths.
    sampling: of both models.
    max_decode_len: sets the cache length.
    position: where in the generated text the passes are timed; the middle by default.
    rounds: timings of each part, of which the median counts.
    seconds: how long one timing lasts, roughly.

  Returns:
    A `Cost` for each gamma.
  """
  tokens = target.check_tokens(tokens)
  drafter.check(target)
  batch, given = len(tokens), target.given(tokens)[0].shape[1]
  slots = given + max_decode_len + max(gammas) + 1
  position = max_decode_len // 2 if position is None else position
  positions = jnp.full(batch, given - 1 + position, jnp.int32)
  history = jnp.full((batch, slots), 2, jnp.int32)
  standardizer = Standardizer(sampling=sampling, num_rows=target.config.vocab_size, num_tokens=target.num_tokens)
  cache, state = (_prefill(model, tokens, slots) for model in (target, drafter))

  passes = functools.partial(_iterations, target, cache=cache, history=history, positions=positions, standardizer=standardizer)
  parts = {'target_step': functools.partial(passes, None, None, gamma=0),
           'target_encoder': functools.partial(_encodings, target, tokens, slots=slots),
           'draft_encoder': functools.partial(_encodings, drafter, tokens, slots=slots)}
  for gamma in gammas:
    parts['verify_pass', gamma] = functools.partial(passes, None, None, gamma=gamma)
    parts['iteration', gamma] = functools.partial(passes, drafter, state, gamma=gamma)
    parts['proposal', gamma] = functools.partial(
        _proposals, drafter, state, history, positions, gamma=gamma, standardizer=standardizer)

  calls = {name: _calls_for(run, seconds) for name, run in parts.items()}
  timed = {name: [] for name in parts}
  for _ in range(rounds):
    for name, run in parts.items():
      timed[name].append(_time(run, calls[name]))
  median = {name: statistics.median(values) for name, values in timed.items()}
  common = {n: median[n] for n in ('target_step', 'target_encoder', 'draft_encoder')}
  proposal = {gamma: _added(timed['iteration', gamma], timed['verify_pass', gamma], median['proposal', gamma])
              for gamma in gammas}
  return {gamma: Cost(gamma=gamma, draft_step=proposal[gamma] / gamma,
                      verify_pass=median['verify_pass', gamma], **common) for gamma in gammas}


def _added(iterations, passes, alone: float) -> float:
  """What a proposal adds to a pass, by pairs timed next to each other; no less than alone."""
  return max(statistics.median(i - p for i, p in zip(iterations, passes)), alone)


def _time(run, calls: int) -> float:
  """Seconds of one of so many turns of a loop."""
  start = time.perf_counter()
  jax.block_until_ready(run(calls=calls))
  return (time.perf_counter() - start) / calls


def _calls_for(run, seconds: float) -> int:
  """How often a loop must turn to last `seconds`; compiles it on the way."""
  jax.block_until_ready(run(calls=1))
  calls = 2
  while (took := _time(run, calls) * calls) < seconds / 4 and calls < _MOST_CALLS:
    calls *= 4
  return min(max(2, round(calls * seconds / took)), _MOST_CALLS)


@functools.partial(jax.jit, static_argnames='slots')
def _prefill(model, tokens, slots):
  return model.prefill(tokens, slots)


def _keys(batch, i):
  return jax.vmap(jax.random.fold_in, (None, 0))(
      jax.random.fold_in(jax.random.key(0), i), jnp.arange(batch))


@functools.partial(jax.jit, static_argnames=('gamma', 'standardizer'))
def _iterations(target, drafter, state, *, cache, history, positions, calls, gamma, standardizer):
  """A decode's iterations that all stay at one place; without a drafter its passes alone.

  A pass is over gamma + 1 tokens a row, with its distributions and its choice.
  """
  batch = len(positions)
  first = jnp.zeros(batch, jnp.int32)
  lengths = positions[:, None] + 1 + jnp.arange(gamma + 1)
  settings = Settings(gamma=gamma, max_decode_len=1, sampling=standardizer.sampling)

  def body(i, carry):
    cache, state, history = carry
    keys = _keys(batch, i)
    block = jax.vmap(lambda row, at: lax.dynamic_slice(row, (at,), (gamma + 1,)))(history, positions)
    q = jnp.full((batch, gamma, standardizer.num_rows), 1 / standardizer.num_rows, jnp.float32)
    if drafter is not None:
      draft, q, state = drafter.propose(state, history, positions, first, keys, gamma, standardizer)
      block = jnp.concatenate([block[:, :1], draft], axis=1)
      history = write_rows(history, block, positions)
    logits, cache = target.step(cache, block, positions)
    processed = standardizer.process(logits, history, lengths, first)
    _, token = choose(standardizer, settings, processed, q, block[:, 1:], keys)
    return cache, state, write_rows(history, token[:, None], positions)

  return lax.fori_loop(0, calls, body, (cache, state, history))


@functools.partial(jax.jit, static_argnames=('gamma', 'standardizer'))
def _proposals(drafter, state, history, positions, *, calls, gamma, standardizer):
  """Proposals of gamma tokens a row, alone."""
  batch = len(positions)

  def body(i, carry):
    state, history, used = carry
    draft, q, state = drafter.propose(
        state, history, positions, jnp.zeros(batch, jnp.int32), _keys(batch, i), gamma, standardizer)
    history = write_rows(history, draft, positions + 1)
    chosen = jnp.take_along_axis(q, draft[..., None], -1)[..., 0]  # what `verify` reads of q
    return state, history, used + chosen

  return lax.fori_loop(0, calls, body, (state, history, jnp.zeros((batch, gamma), jnp.float32)))


@functools.partial(jax.jit, static_argnames='slots')
def _encodings(model, tokens, *, calls, slots):
  """Prefills; each one's tokens wait for the one before, so that none is left out."""
  empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype),
                       jax.eval_shape(lambda: model.prefill(tokens, slots)))

  def body(i, carry):
    del i
    tokens, _ = carry
    state = model.prefill(tokens, slots)
    leaves = jax.tree.leaves(state)  # a drafter may keep none
    never = leaves[0].ravel()[0] > jnp.inf if leaves else jnp.zeros((), bool)
    return tokens + never.astype(tokens.dtype), state

  return lax.fori_loop(0, calls, body, (tokens, empty))
