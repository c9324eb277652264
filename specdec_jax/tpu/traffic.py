"""What a pass of a model must read and compute, from its sizes, and how long that takes.

The model of time: a pass reads every weight of the decoder that it needs once, and the whole
of its caches; it takes the longer of bytes / bandwidth and operations / peak, and in every
layer a fixed time beside (starting its kernels, waiting between them). Sampling, the acceptance
rule and what the host does are left out, as are the rows of a batch that wait for others.
"""

import dataclasses

import jax.numpy as jnp
from flax import traverse_util

from specdec_jax.tpu.chips import Chip

_COLLECTIVES = 3  # a layer: after the two attentions' `out` and the feed-forward's `wo`


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assumptions:
  """What the compiler cannot tell.

  Attributes:
    layer_seconds: fixed cost of a decoder layer in every pass; 15 microseconds explain the
      paper's c of T5-small, base and large alike.
    collective_seconds: of each collective of a model that is split over devices; a guess.
    bandwidth_share, flops_share: of the chip's peaks that are reached.
  """

  layer_seconds: float = 15e-6
  collective_seconds: float = 10e-6
  bandwidth_share: float = 1.0
  flops_share: float = 1.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pass:
  """One decoder pass over a batch, by all devices that share the model together.

  Attributes:
    weights, caches: bytes read.
    flops: operations, a multiply-add counted as two.
    layers: decoder layers.
  """

  weights: int
  caches: int
  flops: int
  layers: int

  def seconds(self, chip: Chip, assumptions: Assumptions = Assumptions(), devices: int = 1) -> float:
    """On so many devices that share the model evenly."""
    memory = (self.weights + self.caches) / (chip.bandwidth * assumptions.bandwidth_share)
    arithmetic = self.flops / (chip.flops * assumptions.flops_share)
    fixed = assumptions.layer_seconds
    if devices > 1:
      fixed += _COLLECTIVES * assumptions.collective_seconds
    return max(memory, arithmetic) * chip.devices / devices + self.layers * fixed


def decoder_pass(model, tokens: int, batch: int, input_length: int, cache_length: int) -> Pass:
  """A pass over `tokens` tokens a row, from shapes alone.

  The keys and values of the cross-attention are computed once a request, and the embedding
  is only looked up, unless the logits come from it.

  Args:
    input_length: encoder tokens that are attended to; a prompt lies in the cache.
  """
  cfg = model.config
  used = read_in_a_pass(model.params['decoder'])
  if cfg.logits_via_embedding:
    used.append(model.params['token_embedder']['embedding'])
  layers = cfg.num_decoder_layers
  attended = cache_length if cfg.decoder_only else cache_length + input_length
  keys = layers * attended * cfg.num_heads * cfg.head_dim  # as many values
  matrices = sum(x.size for x in used if len(x.shape) == 2)
  return Pass(weights=sum(x.size * x.dtype.itemsize for x in used),
              caches=2 * keys * batch * jnp.dtype(cfg.dtype).itemsize,
              flops=2 * batch * tokens * (matrices + 2 * keys), layers=layers)


def read_in_a_pass(params) -> list:
  """The leaves of a decoder's parameters but those of the cross-attention's keys and values."""
  return [x for path, x in traverse_util.flatten_dict(params).items()
          if not ('encoder_decoder_attention' in path and path[-2] in ('key', 'value'))]
