"""The beam search itself: arithmetic on candidates, with T5X's conventions; no models, no caches.

Dimension names: B rows, W beams, C candidates of a beam, L max_decode_len. Beams are
in ascending order, best last. A beam or slot that holds nothing scores -inf.
"""

import jax
import jax.numpy as jnp
from flax import struct
from jax import lax

from specdec_jax.results import Status

EMPTY = -1e7  # what an empty slot scores in a result


class Candidates(struct.PyTreeNode):
  """The best next tokens of every beam, the best first."""

  tokens: jax.Array  # int32 [..., C]
  log_probs: jax.Array  # float32 [..., C], of the token alone, nats
  finite: jax.Array  # bool [...], whether all logits were


class Beams(struct.PyTreeNode):
  """A search between two steps; every row is at its own."""

  step: jax.Array  # int32 [B], tokens that the live beams have
  tokens: jax.Array  # int32 [B, W, L + 1] live beams, the start token first, 0 after the last
  log_probs: jax.Array  # float32 [B, W] of the live beams
  finished: jax.Array  # int32 [B, W, L + 1] texts that ended in EOS
  scores: jax.Array  # float32 [B, W] of those, log-probability / length penalty
  status: jax.Array  # int32 [B]

  @property
  def running(self):
    return self.status == Status.RUNNING

  @property
  def last(self):
    """The last token of every live beam, int32 [B, W]."""
    return jnp.take_along_axis(self.tokens, self.step[:, None, None], axis=2)[..., 0]


def start(start_tokens, num_beams: int, max_decode_len: int) -> Beams:
  """One live beam a row, which holds the start token (int32 [B])."""
  batch = start_tokens.shape[0]
  empty = jnp.zeros((batch, num_beams, max_decode_len + 1), jnp.int32)
  nothing = jnp.full((batch, num_beams), -jnp.inf, jnp.float32)
  return Beams(
      step=jnp.zeros(batch, jnp.int32), tokens=empty.at[:, :, 0].set(start_tokens[:, None]),
      log_probs=nothing.at[:, 0].set(0.0), finished=empty, scores=nothing,
      status=jnp.full(batch, Status.RUNNING, jnp.int32))


def candidates(logits, standardizer, num_beams: int) -> Candidates:
  """Raw logits [..., V'] -> the best tokens that may be decoded, as many as a step can need.

  That is W that live on and, since each of a beam's continuations may end it, W for every EOS id.
  """
  masked = standardizer.mask(logits)
  count = (1 + len(standardizer.eos_ids)) * num_beams
  log_probs, tokens = lax.top_k(masked, min(count, masked.shape[-1]))
  total = jax.nn.logsumexp(masked, axis=-1)
  return Candidates(tokens=tokens, log_probs=log_probs - total[..., None],
                    finite=jnp.isfinite(logits).all(-1) & jnp.isfinite(total))


def length_penalty(length, alpha):
  return ((5.0 + length) / 6.0) ** alpha


def advance(beams: Beams, found: Candidates, going, eos_ids: tuple[int, ...], alpha):
  """One step of the search, in the rows that are `going` (bool [B]).

  The best continuations are taken (2W with one EOS id); those that end in EOS compete with the finished
  texts by score, the W best others live on. A row whose live beams have logits that
  are not finite stays as it is and ends.

  Returns:
    The search afterwards, and the live beam that each new one continues, int32 [B, W].
  """
  batch, width, num_found = found.tokens.shape
  limit = beams.tokens.shape[2] - 1
  alive = jnp.isfinite(beams.log_probs)
  broken = going & (alive & ~found.finite).any(1)
  going &= ~broken

  usable = alive[..., None] & found.finite[..., None]
  totals = jnp.where(usable, beams.log_probs[..., None] + found.log_probs, -jnp.inf)
  best, place = lax.top_k(totals.reshape(batch, -1), min(1 + len(eos_ids), num_found) * width)
  parent, token = place // num_found, pick(found.tokens.reshape(batch, -1), place)
  texts = jax.vmap(lambda rows, new, at: lax.dynamic_update_slice(rows, new[:, None], (0, at)))(
      pick(beams.tokens, parent), token, beams.step + 1)

  ended = jnp.isin(token, jnp.array(eos_ids))
  live = _best(jnp.where(ended, -jnp.inf, best), width)
  score = jnp.where(ended, best / length_penalty(beams.step + 1.0, alpha)[:, None], -jnp.inf)
  scores = jnp.concatenate([beams.scores, score], axis=1)
  done = _best(scores, width)

  after = Beams(
      step=beams.step + 1, tokens=pick(texts, live),
      log_probs=pick(jnp.where(ended, -jnp.inf, best), live),
      finished=pick(jnp.concatenate([beams.finished, texts], axis=1), done),
      scores=pick(scores, done), status=beams.status)
  hope = after.log_probs[:, -1]
  # T5X's bound: no continuation of the best live beam can score above this.
  over = (after.scores.min(1) > hope / length_penalty(limit + 1.0, alpha)) | (hope == -jnp.inf)
  after = after.replace(status=jnp.where(
      over, Status.EOS, jnp.where(after.step == limit, Status.LENGTH, after.status)))
  after = where(going, after, beams)
  status = jnp.where(broken, Status.NON_FINITE, after.status).astype(jnp.int32)
  same = jnp.arange(width)
  return after.replace(status=status), jnp.where(going[:, None], pick(parent, live), same)


def finish(beams: Beams, eos_ids: tuple[int, ...]):
  """The finished texts with their scores, or where a row has none the live beams with their
  log-probabilities: tokens int32 [B, W, L], lengths int32 [B, W], scores float32 [B, W]."""
  some = jnp.isfinite(beams.scores).any(1)
  tokens = jnp.where(some[:, None, None], beams.finished, beams.tokens)[..., 1:]
  scores = jnp.where(some[:, None], beams.scores, beams.log_probs)
  lengths = jnp.where(some[:, None], jnp.argmax(jnp.isin(tokens, jnp.array(eos_ids)), -1) + 1, beams.step[:, None])
  filled = jnp.isfinite(scores)
  return (jnp.where(filled[..., None], tokens, 0), jnp.where(filled, lengths, 0).astype(jnp.int32),
          jnp.where(filled, scores, EMPTY))


def where(rows, then, otherwise):
  """Trees of [B, ...]: `then` in the rows (bool [B]), `otherwise` in the others."""
  pick = lambda a, b: jnp.where(rows.reshape(-1, *[1] * (a.ndim - 1)), a, b)
  return jax.tree.map(pick, then, otherwise)


def _best(scores, width):
  """Places of the best, ascending; of equal ones the first is the better: int32 [B, width]."""
  return jnp.flip(lax.top_k(scores, width)[1], axis=1)


def pick(values, places):
  """values [B, N, ...] at places [B, K] -> [B, K, ...]."""
  return jax.vmap(lambda v, p: v[p])(values, places)
