"""The acceptance rule of speculative decoding [alg. 1]: arithmetic on p and q, nothing else."""

import numbers

import jax
import jax.numpy as jnp

from specdec_jax.errors import SettingError
from specdec_jax.sampling import draw


def verify(p, q, draft_tokens, key, lenience: float = 1.0, verification: str = 'token'):
  """Keeps a prefix of the draft and draws one more token, so that the text follows p.

  Draft token i is accepted while u_i * lenience * q_i(x_i) < p_i(x_i) with u_i
  uniform on [0, 1): strict, so that p = 0 is never accepted. The next token is
  drawn from p[n] where all are accepted (the bonus token), else from the
  normalised residual max(0, p[n] - q[n]), which is exact for lenience = 1 whatever
  q is [app. A.1]. Lenience < 1 is inexact, but no token gets more than p / lenience
  [app. A.5].

  Args:
    p: float32 [gamma + 1, V], the target's standardised distributions.
    q: float32 [gamma, V], the distributions that the draft tokens were drawn from.
    draft_tokens: int32 [gamma].
    key: typed `jax.random.key`.
    lenience: in [0, 1].
    verification: the rule; 'token' is algorithm 1.

  Returns:
    num_accepted (int32 scalar, 0 to gamma) and next_token (int32 scalar).
  """
  check_verification(verification)
  check_lenience(lenience)
  p, q = jnp.asarray(p, jnp.float32), jnp.asarray(q, jnp.float32)
  draft_tokens = jnp.asarray(draft_tokens)
  gamma, num_tokens = q.shape
  if gamma < 1 or p.shape != (gamma + 1, num_tokens) or draft_tokens.shape != (gamma,):
    raise SettingError(
        'verify takes p [gamma + 1, V], q [gamma, V] and draft_tokens [gamma], gamma at least 1; '
        f'it got {list(p.shape)}, {list(q.shape)} and {list(draft_tokens.shape)}.')
  accept_key, next_key = jax.random.split(key)
  at = jnp.arange(gamma)
  u = jax.random.uniform(accept_key, (gamma,), jnp.float32)
  accepted = u * lenience * q[at, draft_tokens] < p[at, draft_tokens]
  num_accepted = jnp.cumprod(accepted, dtype=jnp.int32).sum(dtype=jnp.int32)
  # The bonus token is the case q = 0: the residual is then p itself.
  q_next = jnp.where(num_accepted < gamma, q[jnp.minimum(num_accepted, gamma - 1)], 0.0)
  return num_accepted, draw(residual(p[num_accepted], q_next), next_key)


def verify_greedy(logits, draft_tokens, lenience: float = 1.0):
  """The rule at temperature 0, where p is one-hot: keeps the draft while it is the target's maximum.

  That is `verify` for one-hot p and any q, without its random numbers. Lenience < 1 also
  keeps a token x with p(x) >= lenience * max(p), p taken before the argmax: the condition
  that is meant in app. A.5, which prints it the other way round.

  Args:
    logits: float32 [gamma + 1, V], the target's, masked and processed, not standardised.
    draft_tokens: int32 [gamma].
    lenience: in [0, 1].

  Returns:
    num_accepted and next_token, the first maximum at its place, as `verify`.
  """
  best = jnp.argmax(logits, axis=-1).astype(jnp.int32)
  at = jnp.arange(draft_tokens.shape[0])
  accepted = draft_tokens == best[:-1]
  if lenience < 1:
    ratio = jnp.exp(logits[at, draft_tokens] - logits.max(-1)[:-1])  # p(x) / max(p)
    accepted |= (ratio >= lenience) & (ratio > 0)
  num_accepted = jnp.cumprod(accepted, dtype=jnp.int32).sum(dtype=jnp.int32)
  return num_accepted, best[num_accepted]


def residual(p, q):
  """Normalised max(0, p - q) [§2.3]; p itself where that is zero or not finite. float32 [V]."""
  excess = jnp.maximum(p - q, 0.0)
  total = excess.sum()
  usable = (total > 0) & jnp.isfinite(total)
  return jnp.where(usable, excess / jnp.where(usable, total, 1.0), p)


def check_lenience(lenience: float):
  if isinstance(lenience, numbers.Real) and not 0 <= lenience <= 1:
    raise SettingError(f'lenience is {lenience}; it must be in [0, 1], and 1 is exact.')


def check_verification(verification: str):
  if verification != 'token':
    raise SettingError(f"verification is '{verification}'; the rule here is 'token'.")
