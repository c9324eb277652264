"""How a run decodes: with a drafter or without, as one callable."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.decoding import autoregressive_decode, speculative_decode
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.jobs.batching import Batch
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """The settings of a decode; without a drafter it is the one-token baseline.

  Attributes:
    drafter: such as a `ModelDrafter`, or None.
    gamma: draft tokens an iteration, 7 by default; only with a drafter.
    lenience: 1 is exact, and the default; only with a drafter.
    sampling, max_decode_len, seed, logits_processors: as in `speculative_decode`.
    trace: keep what each iteration drafted and accepted; only with a drafter.
  """

  drafter: Drafter | Model | None = None
  gamma: int | None = None
  lenience: float | None = None
  sampling: Sampling = Sampling()
  max_decode_len: int = 128
  seed: int = 0
  logits_processors: Sequence[Callable] = ()
  trace: bool = False

  def __post_init__(self):
    if self.drafter is None:
      ignored = [f'{n} = {getattr(self, n)}' for n in ('gamma', 'lenience')
                 if getattr(self, n) is not None]
      if ignored:
        raise SettingError(f"{' and '.join(ignored)} would be ignored: there is no drafter, so this "
                         'is plain decoding; set a drafter or leave it out.')
    else:
      object.__setattr__(self, 'drafter', as_drafter(self.drafter))
      object.__setattr__(self, 'gamma', 7 if self.gamma is None else self.gamma)
      object.__setattr__(self, 'lenience', 1.0 if self.lenience is None else self.lenience)

  @property
  def name(self) -> str:
    if self.drafter is None:
      return 'target alone'
    inexact = '' if self.lenience == 1 else f', lenience {self.lenience} (inexact)'
    return f'drafter: {self.drafter.name}, gamma {self.gamma}{inexact}'

  def __call__(self, target: Model, batch: Batch) -> Result:
    """Decodes a batch: its ids and, of prompts, its lengths are those of its inputs."""
    common: dict[str, Any] = dict(
        sampling=self.sampling, max_decode_len=self.max_decode_len, seed=self.seed, ids=batch.ids,
        logits_processors=self.logits_processors, lengths=batch.lengths, buckets=())
    if self.drafter is None:
      return autoregressive_decode(target, batch.tokens, **common)
    lenience = 1.0 if self.lenience is None else self.lenience
    return speculative_decode(target, self.drafter, batch.tokens, gamma=self.gamma, lenience=lenience,
                              trace=self.trace, **common)
