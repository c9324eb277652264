"""The loss of heads on a frozen target: how far what they say is from what the target itself says."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

from specdec_jax.drafters.heads import shifted
from specdec_jax.model import Model
from specdec_jax.models.heads import HeadsConfig, heads_network, initial
from specdec_jax.training.losses import decoder_inputs, from_labels, masked_log_probs, real_tokens


@dataclasses.dataclass(frozen=True)
class HeadsLoss:
  """As `losses.ModelLoss`; the teacher is the target.

  Attributes:
    config: of the heads.
    divergence: 'kl' or 'tvd', see `losses.from_labels`.
    unroll: of a layer, how many tokens of a draft it is trained for: the first from the target's hidden states, each
      later one from the hidden states that the layer itself made for the one before.
  """

  config: HeadsConfig
  divergence: str = 'kl'
  unroll: int = 2

  dropout_rate = 0.0

  def initial(self, seed: int | jax.Array):
    """Random weights."""
    return initial(self.config, jax.random.key(seed))

  def __call__(self, params, batch, dropout_key=None, teacher: Model | None = None):
    """Mean over the heads or tokens of a draft, summed over the real target tokens; and their number."""
    del dropout_key
    return self._losses(params, batch, teacher, self.divergence,
                        self.config.count if self.config.kind == 'parallel' else self.unroll)

  def validation(self, params, batch, teacher: Model | None = None):
    """The total variation distance of a draft's first token: its mean is 1 - alpha."""
    return self._losses(params, batch, teacher, 'tvd', 1)

  def shardings(self, state, mesh):
    """Heads are whole on every device."""
    place = SingleDeviceSharding(jax.local_devices()[0]) if mesh is None else NamedSharding(mesh.devices(), P())
    return jax.tree.map(lambda _: place, state)

  def _losses(self, params, batch, target, divergence, tokens: int):
    inputs, real = decoder_inputs(target.config, batch), real_tokens(batch['targets'])
    logits, told = target.with_hidden('__call__', *inputs)
    labels = jnp.exp(masked_log_probs(target.config, logits))
    embedded, before = target.embed(inputs[-1]), shifted(told.last)
    network: Any = heads_network(self.config)
    apply = lambda *args: network.apply({'params': params}, *args)
    ours = lambda made: masked_log_probs(target.config, target.to_logits(made))
    total = jnp.zeros(())
    if self.config.kind == 'parallel':
      made = apply(before, embedded)
      for i in range(tokens):  # head i at a place speaks of the distribution i places on
        length = labels.shape[1] - i
        losses = from_labels(labels[:, i:], ours(made[:, :length, i]), divergence)
        total += jnp.sum(losses * real[:, i:])
    else:
      visible = None if target.config.decoder_only else inputs[0] != target.config.pad_id
      for _ in range(tokens):
        made = apply(before, embedded, told.encoded, visible)
        total += jnp.sum(from_labels(labels, ours(made), divergence) * real)
        before = shifted(made)
    return total / tokens, jnp.sum(real)
