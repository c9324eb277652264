"""The Flax module that belongs to a configuration."""

from flax import linen as nn

from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.gpt2 import GPT2
from specdec_jax.models.t5 import T5

_NETWORKS = {T5Config: T5, GPT2Config: GPT2}


def network(config: T5Config | GPT2Config) -> nn.Module:
  return _NETWORKS[type(config)](config)
