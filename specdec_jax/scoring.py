"""The log-probability of given texts under a model; of one input's several texts, the encoder runs once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float, Int

from specdec_jax import checks, compilation
from specdec_jax.data.padding import padded_length
from specdec_jax.decoding import inputs
from specdec_jax.drafters.interface import Request
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer


def score(model: Model, tokens: Int[ArrayLike, 'B S'], targets: Int[ArrayLike, '*texts T'],
          target_lengths: Int[ArrayLike, ' *texts'] | None = None, lengths: Int[ArrayLike, ' B'] | None = None,
          per_token: bool = False) -> Float[np.ndarray, ' *texts']:
  """Log-probability in nats of texts, at temperature 1, as the `scores` of decodes.

  Tokens that the model cannot emit, its padding rows, have no probability: a text with one scores -inf, and a
  text of no tokens 0.

  Args:
    model: whose probability it is.
    tokens: int [B, S], encoder tokens padded on the right; of a decoder-only model the prompts.
    targets: int [B, T], a text for each row of tokens, or [B, N, T], several. Nothing is added to them: where EOS is
      to count it stands in them.
    target_lengths: int [B] or [B, N], how many tokens each text has, 0 to T. By default it ends with its last token
      that is not 0, so where 0 is a real token its length must be given.
    lengths: int [B], tokens of each prompt of a decoder-only model; all S by default.
    per_token: each token's log-probability in place of their sum.

  Returns:
    float32 [B] or [B, N]; with per_token [B, T] or [B, N, T], 0 after each text's end.

  Raises:
    SettingError: an argument of a wrong type or shape, or ids that the model has not.
  """
  model, per_token = inputs.checked_target(model), checks.flag('per_token', per_token)
  targets = _checked_targets(model, targets)
  length = targets.shape[-1]
  ends = (np.where(targets != 0, np.arange(1, length + 1), 0).max(-1) if target_lengths is None else
          checks.row_lengths('target_lengths', target_lengths, targets.shape[:-1], length, 'targets'))
  padded = padded_length(length)
  request, _ = inputs.request(model, None, tokens, lengths, None, length)
  if len(targets) != len(request.tokens):
    raise SettingError(f'targets has {len(targets)} rows, tokens {len(request.tokens)}; they must agree.')
  flat = np.pad(targets.reshape(-1, length), ((0, 0), (0, padded - length)))
  found = np.asarray(_log_probabilities(model, request, flat))[:, :length].reshape(targets.shape)
  found = np.where(np.arange(length) < ends[..., None], found, np.float32(0))
  return found if per_token else found.sum(-1)


def _checked_targets(model: Model, targets: Any) -> np.ndarray:
  """int32 [B, T] or [B, N, T]."""
  axes = 3 if np.ndim(targets) == 3 else 2
  targets = checks.integers('targets', targets, (None,) * axes, '[batch, length] or [batch, texts of an input, length]')
  return model.check_tokens(targets.reshape(-1, max(targets.shape[-1], 1)), 'targets').reshape(targets.shape)


@compilation.jit
def _log_probabilities(model: Model, request: Request, targets: jax.Array) -> jax.Array:
  """float32 [B * N, T] of targets int32 [B * N, T], N of each row of the request."""
  prefix, prefix_lengths = model.decoder_prefix(request.tokens, request.lengths)
  times = len(targets) // len(prefix)
  cache = model.prefill(request.tokens, prefix.shape[1] + targets.shape[1])
  last = jnp.take_along_axis(prefix, prefix_lengths[:, None] - 1, axis=1)
  cache, last, positions = jax.tree.map(lambda x: jnp.repeat(x, times, axis=0), (cache, last, prefix_lengths - 1))
  fed = jnp.concatenate([last, targets[:, :-1]], axis=1)
  logits, _ = model.step(cache, fed, positions)
  logits = Standardizer.of_target(model, Sampling()).mask(logits)
  chosen = jnp.take_along_axis(logits, targets[..., None], -1)[..., 0]
  return chosen - jax.nn.logsumexp(logits, axis=-1)
