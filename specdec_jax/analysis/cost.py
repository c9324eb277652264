"""c and the verify cost, by timing what an iteration does, each part alone, in one run."""

from collections.abc import Sequence
import dataclasses
import functools
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.laws import Law
from specdec_jax.sampling import Sampling
from specdec_jax.speculative import verify


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost:
  """Times in seconds, medians; every pass includes its laws and draws, as in a decode.

  Attributes:
    gamma: draft length.
    draft_step: one draft token (a proposal of gamma tokens, divided by gamma).
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
  def c(self) -> float:
    """Draft step over target step [§3.3]."""
    return self.draft_step / self.target_step

  @property
  def verify_cost(self) -> float:
    """(gamma + 1)-token pass over one-token pass; the paper takes it to be 1."""
    return self.verify_pass / self.target_step

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

  Each part runs inside one compiled loop; the parts take turns over several
  rounds, so that a slow spell of the machine meets them all.

  Args:
    target, drafter: as in `speculative_decode`.
    tokens: int [B, S], encoder tokens of a typical batch.
    gammas: draft lengths.
    sampling: of both models.
    max_decode_len: sets the cache length.
    position: where in the text the passes are timed; the middle by default.
    rounds: timings of each part, of which the median counts.
    seconds: how long one timing lasts, roughly.

  Returns:
    A `Cost` for each gamma.
  """
  tokens = target.check_tokens(tokens)
  drafter.check(target)
  position = max_decode_len // 2 if position is None else position
  parts = {('target_step',): _pass(target, tokens, 0, sampling, max_decode_len, position)}
  for gamma in gammas:
    length = 1 + max_decode_len + gamma + 1
    parts['verify_pass', gamma] = _pass(target, tokens, gamma, sampling, max_decode_len, position)
    parts['draft', gamma] = _proposal(target, drafter, tokens, gamma, sampling, max_decode_len, position)
  parts['target_encoder',] = _encoder(target, tokens, length)
  parts['draft_encoder',] = _encoder(drafter, tokens, length)

  timed = {name: [] for name in parts}
  counts = {name: _calls_for(run, seconds) for name, run in parts.items()}
  for _ in range(rounds):
    for name, run in parts.items():
      timed[name].append(_time(run, counts[name]))
  median = {name: statistics.median(values) for name, values in timed.items()}
  return {gamma: Cost(gamma=gamma, draft_step=median['draft', gamma] / gamma,
                      target_step=median['target_step',], verify_pass=median['verify_pass', gamma],
                      target_encoder=median['target_encoder',], draft_encoder=median['draft_encoder',])
          for gamma in gammas}


def _time(run, calls: int) -> float:
  start = time.perf_counter()
  jax.block_until_ready(run(calls))
  return (time.perf_counter() - start) / calls


def _calls_for(run, seconds: float) -> int:
  """How often a loop must turn to last `seconds`; compiles it on the way."""
  jax.block_until_ready(run(1))
  calls = 2
  while (took := _time(run, calls) * calls) < seconds / 4:
    calls *= 4
  return max(2, round(calls * seconds / max(took, 1e-9)))


def _scene(model, tokens, gamma, max_decode_len, position):
  """A decode in the middle: state, history [B, N], positions [B]."""
  batch, slots = len(tokens), 1 + max_decode_len + gamma + 1
  state = jax.jit(lambda m, t: m.prefill(t, slots))(model, tokens)
  history = jnp.full((batch, slots), 2, jnp.int32).at[:, 0].set(0)
  return state, history, jnp.full(batch, position, jnp.int32)


def _law(target, sampling):
  return Law(sampling=sampling, num_rows=target.config.vocab_size, num_tokens=target.num_tokens)


def _keys(batch, i):
  return jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(jax.random.key(0), i),
                                                 jnp.arange(batch))


def _pass(target, tokens, gamma, sampling, max_decode_len, position):
  """A loop of target passes over gamma + 1 tokens, each with its laws and its choice."""
  cache, history, positions = _scene(target, tokens, gamma, max_decode_len, position)
  law, batch = _law(target, sampling), len(tokens)

  @jax.jit
  def loop(target, cache, history, calls):
    q = jnp.full((batch, gamma, law.num_rows), 1 / law.num_rows, jnp.float32)
    lengths = positions[:, None] + 1 + jnp.arange(gamma + 1)

    def body(i, carry):
      cache, block = carry
      logits, cache = target.step(cache, block, positions)
      p = law.probabilities(logits, history, lengths, jnp.zeros(batch, jnp.int32))
      if gamma:
        _, token = jax.vmap(verify)(p, q, block[:, 1:], _keys(batch, i))
      else:
        token = law.draw(p[:, 0], _keys(batch, i))
      return cache, block.at[:, 0].set(token)

    return jax.lax.fori_loop(0, calls, body, (cache, jnp.full((batch, gamma + 1), 2, jnp.int32)))

  return functools.partial(loop, target, cache, history)


def _proposal(target, drafter, tokens, gamma, sampling, max_decode_len, position):
  """A loop of proposals of gamma tokens."""
  state, history, positions = _scene(drafter, tokens, gamma, max_decode_len, position)
  law, batch = _law(target, sampling), len(tokens)

  @jax.jit
  def loop(drafter, state, history, calls):
    def body(i, carry):
      state, history, used = carry
      draft, q, state = drafter.propose(
          state, history, positions, jnp.zeros(batch, jnp.int32), _keys(batch, i), gamma, law)
      history = history.at[:, position + 1:position + 1 + gamma].set(draft)
      chosen = jnp.take_along_axis(q, draft[..., None], -1)[..., 0]  # what `verify` reads of q
      return state, history, used + chosen

    unused = jnp.zeros((batch, gamma), jnp.float32)
    return jax.lax.fori_loop(0, calls, body, (state, history, unused))

  return functools.partial(loop, drafter, state, history)


def _encoder(model, tokens, length):
  """A loop of prefills; the tokens depend on the turn, so that none is left out."""
  @jax.jit
  def loop(model, tokens, calls):
    def body(i, carry):
      tokens, _ = carry
      state = model.prefill(tokens, length)
      some = jax.tree.leaves(state)[0].ravel()[0]
      return tokens + (some > jnp.inf).astype(jnp.int32), state

    empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype),
                         jax.eval_shape(lambda: model.prefill(tokens, length)))
    return jax.lax.fori_loop(0, calls, body, (tokens, empty))

  return functools.partial(loop, model, np.asarray(tokens))
