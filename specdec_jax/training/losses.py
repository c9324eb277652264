"""What a training step makes smaller: a model's cross-entropy, or how far its distributions are from a teacher's."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.network import network
from specdec_jax.parallel.mesh import state_shardings


@dataclasses.dataclass(frozen=True)
class ModelLoss:
  """Of a whole model; static, as every loss of the trainer: `initial`, a call, `validation` and `shardings`.

  Attributes:
    config: its sizes; dropout_rate and dtype hold for training.
    label_smoothing: mass moved from the target token to a uniform distribution.
    divergence: from a teacher's distributions, see `token_losses`.
  """

  config: T5Config | GPT2Config
  label_smoothing: float = 0.0
  divergence: str = 'kl'

  @property
  def dropout_rate(self) -> float:
    return self.config.dropout_rate

  def initial(self, seed: int | jax.Array):
    """Random weights."""
    if self.config.int8_weights:
      raise SettingError("A model of int8 weights cannot be trained; load it with dtype 'float32'.")
    inputs = [jnp.zeros((1, 1), jnp.int32)] * (1 if self.config.decoder_only else 2)
    return network(self.config).init(jax.random.key(seed), *inputs)['params']

  def __call__(self, params, batch, dropout_key=None, teacher=None):
    """Summed over the real target tokens, and their number."""
    return token_losses(self.config, params, batch, self.label_smoothing, dropout_key, teacher, self.divergence)

  def validation(self, params, batch, teacher=None):
    """As a call: cross-entropy of the tokens (nats), whatever is trained."""
    del teacher
    return token_losses(self.config, params, batch)

  def shardings(self, state, mesh):
    """See `parallel.mesh.state_shardings`."""
    return state_shardings(state, self.config, mesh)


def shift_right(targets, start_id: int):
  """Decoder inputs of teacher forcing: the targets after the start token."""
  return jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=start_id)


def decoder_inputs(config: T5Config | GPT2Config, batch) -> tuple[jax.Array, ...]:
  """What a pass over whole texts takes: encoder tokens, where there is an encoder, and the decoder's."""
  fed = shift_right(batch['targets'], config.eos_ids[0] if config.decoder_only else config.decoder_start_id)
  return (fed,) if config.decoder_only else (batch['encoder_tokens'], fed)


def masked_log_probs(config: T5Config | GPT2Config, logits) -> jax.Array:
  """Raw logits [..., V] -> float32 log-probabilities; padding rows get none."""
  if config.num_pieces:
    logits = jnp.where(jnp.arange(config.vocab_size) < config.num_pieces, logits, -1e10)
  return jax.nn.log_softmax(logits)


def log_probs(config, params, batch, dropout_key=None):
  """Teacher-forced log-probabilities of the targets' places, float32 [B, T, V]; padding rows get none."""
  logits: Any = network(config).apply(
      {'params': params}, *decoder_inputs(config, batch), deterministic=dropout_key is None,
      rngs=None if dropout_key is None else {'dropout': dropout_key})
  return masked_log_probs(config, logits)


def from_labels(labels, ours, divergence: str):
  """How far log-probabilities [..., V] are from distributions [..., V]: [...].

  'kl' is cross-entropy; 'tvd' is the total variation distance 1 - sum(min(p, q)) = D_LK(p, q) [def. 3.2], whose mean
  is 1 - alpha [cor. 3.6].
  """
  if divergence == 'tvd':
    return 1 - jnp.minimum(labels, jnp.exp(ours)).sum(-1)
  return -(labels * ours).sum(-1)


def real_tokens(targets):
  """bool [B, T]: up to each text's last token; an id 0 before the end is a token."""
  return jnp.cumsum((targets > 0)[:, ::-1], axis=1)[:, ::-1] > 0


def token_losses(config, params, batch, label_smoothing=0.0, dropout_key=None, teacher: Model | None = None,
                 divergence='kl'):
  """Summed cross-entropy over real target tokens (nats), and their number.

  With a teacher, a `Model` of the same vocabulary, the labels are its distributions p instead of the
  tokens: word-level distillation, by the divergence of `from_labels`.
  """
  targets = batch['targets']
  ours = log_probs(config, params, batch, dropout_key)
  if teacher is not None:
    labels = jnp.exp(log_probs(teacher.config, teacher.params, batch))[..., :config.vocab_size]
    losses = from_labels(labels, ours, divergence)
  else:
    losses = -jnp.take_along_axis(ours, targets[..., None], -1)[..., 0]
  if label_smoothing:
    pieces = config.num_pieces or config.vocab_size
    losses = (1 - label_smoothing) * losses - label_smoothing * ours[..., :pieces].mean(-1)
  real = real_tokens(targets)
  return jnp.sum(losses * real), jnp.sum(real)
