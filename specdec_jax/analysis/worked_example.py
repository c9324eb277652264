"""The rule on two tokens: what arithmetic says [alg. 1], and what `verify` does many times over."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from specdec_jax.rule import verify
from specdec_jax.sampling import sample


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
  """One draft token, verified.

  Attributes:
    acceptance: how often it is accepted: beta = sum_x min(p, q).
    accepted: how often each token comes out as an accepted draft: min(p, q).
    corrected: how often each comes out of the residual: max(0, p - q).
  """

  acceptance: float
  accepted: Float64[np.ndarray, ' V']
  corrected: Float64[np.ndarray, ' V']

  @property
  def distribution(self) -> Float64[np.ndarray, ' V']:
    """what comes out in all: p."""
    return self.accepted + self.corrected


def arithmetic(p: ArrayLike, q: ArrayLike) -> Outcome:
  """Drafted and accepted: q(x) min(1, p(x) / q(x)); else, with what is left, the normalised residual."""
  p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
  accepted = q * np.minimum(1, np.divide(p, q, out=np.ones_like(p), where=q > 0))
  excess = np.maximum(0, p - q)
  rejected = 1 - accepted.sum()
  corrected = rejected * excess / excess.sum() if excess.sum() > 0 else np.zeros_like(p)
  return Outcome(acceptance=float(accepted.sum()), accepted=accepted, corrected=corrected)


def simulation(p: ArrayLike, q: ArrayLike, samples: int = 100_000, seed: int = 0) -> Outcome:
  """The same by drafting from q and calling `verify` with gamma = 1, so many times."""
  p, q = jnp.asarray(p, jnp.float32), jnp.asarray(q, jnp.float32)

  @jax.jit
  @jax.vmap
  def once(key):
    draft_key, rule_key = jax.random.split(key)
    draft = sample(q, draft_key)
    return verify(jnp.stack([p, p]), q[None], draft[None], rule_key), draft

  (num_accepted, next_token), draft = jax.device_get(once(jax.random.split(jax.random.key(seed), samples)))
  kept = num_accepted > 0
  frequency = lambda tokens: np.bincount(tokens, minlength=len(p)) / samples
  return Outcome(acceptance=float(kept.mean()), accepted=frequency(draft[kept]),
                 corrected=frequency(next_token[~kept]))
