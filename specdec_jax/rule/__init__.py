"""The acceptance rules of speculative decoding: arithmetic on p and q, nothing else.

`verify` is the rule for a chain of draft tokens [alg. 1], whichever is asked for. `token` has it for a tree of
candidates, of which a chain is the case of one child a node; `greedy` is its case at temperature 0;
`block` judges a whole chain at once.
"""

import numbers
from typing import Any

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Int32, Key

from specdec_jax import checks, lazy
from specdec_jax.errors import SettingError
from specdec_jax.rule.block import verify_block
from specdec_jax.rule.greedy import verify_greedy_tree
from specdec_jax.rule.residual import residual
from specdec_jax.rule.token import verify_tree
from specdec_jax.tree import Tree

__all__ = ['VERIFICATIONS', 'check', 'residual', 'verify', 'verify_block', 'verify_greedy_tree', 'verify_tree']
lazy.show_modules(__name__)

VERIFICATIONS = ('token', 'block')


def verify(p: Float[ArrayLike, 'gamma+1 V'], q: Float[ArrayLike, 'gamma V'], draft_tokens: Int[ArrayLike, ' gamma'],
           key: Key[Array, ''], lenience: float = 1.0,
           verification: str = 'token') -> tuple[Int32[Array, ''], Int32[Array, '']]:
  """Keeps a prefix of the draft and samples one more token, so that the text follows p.

  The rule 'token' accepts draft token i while u_i * lenience * q_i(x_i) < p_i(x_i) with u_i
  uniform on [0, 1): strict, so that p = 0 is never accepted. The next token is sampled from p[n]
  where all are accepted (the bonus token), else from the normalised residual max(0, p[n] - q[n]),
  which is exact for lenience = 1 whatever q is [app. A.1]. Lenience < 1 is inexact, but no token
  gets more than p / lenience [app. A.5]. The rule 'block' decides on the whole draft at once, and
  accepts at least as many tokens in expectation (Sun et al. 2024, arXiv 2403.10444); see `block`.

  Args:
    p: float32 [gamma + 1, V], the target's standardised distributions.
    q: float32 [gamma, V], the distributions that the draft tokens were sampled from.
    draft_tokens: int32 [gamma].
    key: typed `jax.random.key`.
    lenience: in [0, 1]; 1 for 'block'.
    verification: 'token' or 'block'.

  Returns:
    num_accepted (int32 scalar, 0 to gamma) and next_token (int32 scalar).

  Raises:
    SettingError: shapes that do not belong together, or a setting out of range.
  """
  check(lenience, verification)
  p, q = jnp.asarray(p, jnp.float32), jnp.asarray(q, jnp.float32)
  draft_tokens = jnp.asarray(draft_tokens)
  shapes = [list(x.shape) for x in (p, q, draft_tokens)]
  gamma = draft_tokens.shape[0] if draft_tokens.ndim == 1 else 0
  if gamma < 1 or q.ndim != 2 or shapes != [[gamma + 1, q.shape[1]], [gamma, q.shape[1]], [gamma]]:
    raise SettingError('verify takes p [gamma + 1, V], q [gamma, V] and draft_tokens [gamma], gamma at least 1; '
                       f'it got {shapes[0]}, {shapes[1]} and {shapes[2]}.')
  if verification == 'block':
    return verify_block(p, q, draft_tokens, key)
  _, num_accepted, next_token = verify_tree(p, q, draft_tokens, Tree.chain(gamma), key, lenience)
  return num_accepted, next_token


def check(lenience: Any, verification: str, chain: bool = True) -> None:
  """SettingError for a rule that is not known, or that does not go with the lenience or the tree."""
  checks.choice('verification', verification, VERIFICATIONS)
  if isinstance(lenience, (numbers.Real, str, bool, type(None))):  # not a traced number
    lenience = checks.real('lenience', lenience, lambda value: 0 <= value <= 1, 'in [0, 1] (1 is exact)')
    if lenience < 1 and verification == 'block':
      raise SettingError(f"lenience is {lenience} and verification 'block'; lenience below 1 goes with 'token' only.")
    if lenience < 1 and not chain:
      raise SettingError(f'lenience is {lenience} and the draft is a tree; lenience below 1 goes with a chain only.')
  if verification == 'block' and not chain:
    raise SettingError("verification is 'block' and the draft is a tree; block verification goes with a chain only.")
