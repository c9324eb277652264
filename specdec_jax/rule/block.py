"""Block verification of a chain (Sun et al. 2024, arXiv 2403.10444): all draft tokens judged together.

The token rule of algorithm 1 stops at the first rejected token. Here each place i has the joint ratio
w_i = min(1, w_{i-1} p_i(x_i) / q_i(x_i)), clamped in each step, and is accepted with probability h_i; the *last*
accepted place counts, so that a token which alone would be rejected is kept where what follows it makes up for it.
The text's distribution is the target's all the same, and no rule for chains accepts more tokens in expectation.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int32, Key

from specdec_jax.rule.residual import residual
from specdec_jax.sampling import sample


def verify_block(p: Float[Array, 'gamma+1 V'], q: Float[Array, 'gamma V'], draft_tokens: Int32[Array, ' gamma'],
                 key: Key[Array, ''],
                 length: Int32[Array, ''] | None = None) -> tuple[Int32[Array, ''], Int32[Array, '']]:
  """The block rule for one row.

  Args:
    p: float32 [gamma + 1, V], the target's standardised distributions.
    q: float32 [gamma, V], the distributions that the draft tokens were sampled from.
    draft_tokens: int32 [gamma].
    key: typed key.
    length: int32 scalar, how many of the draft tokens may count; all by default. What stands after them (after
      an EOS, or where a distribution is not finite) has no part in the decision.

  Returns:
    num_accepted (int32 scalar, 0 to length) and next_token (int32 scalar).
  """
  gamma = draft_tokens.shape[0]
  length = jnp.int32(gamma) if length is None else length
  place = jnp.arange(gamma)
  eta_key, next_key = jax.random.split(key)
  eta = jax.random.uniform(eta_key, (gamma,), jnp.float32)
  p_token, q_token = (x[place, draft_tokens] for x in (p[:-1], q))

  def one(w, at):
    p_x, q_x = at
    w = jnp.minimum(jnp.where(q_x > 0, w * p_x / q_x, 0.0), 1.0)
    return w, w

  _, w = lax.scan(one, jnp.float32(1.0), (p_token, q_token))  # [gamma], w_1 to w_gamma
  # h_i of a place with another draft token after it, from the probability that it leaves over; 0 / 0 is p = q.
  over = jnp.maximum(w[:-1, None] * p[1:-1] - q[1:], 0.0).sum(-1)
  whole = over + 1 - w[:-1]
  h = jnp.append(jnp.where(whole > 0, over / jnp.where(whole > 0, whole, 1.0), 1.0), 0.0)
  h = jnp.where(place == length - 1, w, h)  # the last place that may count
  counts = (eta < h) & (place < length)
  num_accepted = jnp.max(jnp.where(counts, place + 1, 0), initial=0).astype(jnp.int32)
  w_here = jnp.where(num_accepted > 0, w[jnp.maximum(num_accepted - 1, 0)], 1.0)
  q_next = jnp.where(num_accepted < length, q[jnp.minimum(num_accepted, gamma - 1)], 0.0)
  scaled = jnp.where(num_accepted < length, w_here, 1.0) * p[num_accepted]
  return num_accepted, sample(residual(scaled, q_next, p[num_accepted]), next_key)
