"""How a run decodes: with a drafter or without, as one callable."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from specdec_jax import rule
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.decoding import autoregressive_decode, inputs, running_decode, speculative_decode
from specdec_jax.decoding.running import Running
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.jobs.batching import Batch
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling
from specdec_jax.streaming import Stream, stream
from specdec_jax.tree import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
  """The settings of a decode; without a drafter it is the one-token baseline.

  Attributes:
    drafter: such as a `ModelDrafter`, or None.
    gamma: draft tokens an iteration, 7 by default; None where the draft is a tree; only with a drafter.
    tree: in place of gamma; a number, or a tree of one node a level, becomes gamma. Only with a drafter.
    lenience: 1 is exact, and the default; only with a drafter.
    verification: 'token', the default, or for chains 'block'; only with a drafter.
    auto: 'gamma' or 'tree' where that is still to be chosen (see `choosing`); such a method decodes nothing.
    sampling, max_decode_len, seed, logits_processors: as in `speculative_decode`.
    num_samples: texts of each input.
    trace: keep what each iteration drafted and accepted; only with a drafter.
  """

  drafter: Drafter | Model | None = None
  gamma: int | None = None
  tree: Tree | int | None = None
  lenience: float | None = None
  verification: str | None = None
  auto: str | None = None
  sampling: Sampling = Sampling()
  max_decode_len: int = 128
  seed: int = 0
  logits_processors: Sequence[Callable] = ()
  num_samples: int = 1
  trace: bool = False

  def __post_init__(self):
    if self.drafter is None:
      ignored = [f'{n} = {getattr(self, n)!r}' for n in ('gamma', 'tree', 'lenience', 'verification')
                 if getattr(self, n) is not None] + ([f"{self.auto} = 'auto'"] if self.auto else [])
      if ignored:
        raise SettingError(f"{' and '.join(ignored)} would be ignored: there is no drafter, so this "
                         'is plain decoding; set a drafter or leave it out.')
      return
    shape = inputs.checked_tree(self.gamma, self.tree)
    settled = {'drafter': as_drafter(self.drafter), 'lenience': 1.0 if self.lenience is None else self.lenience,
               'verification': self.verification or 'token'}
    if self.auto is None:
      settled |= {'gamma': shape.num_nodes if shape.is_chain else None, 'tree': None if shape.is_chain else shape}
    for name, value in settled.items():
      object.__setattr__(self, name, value)
    rule.check(self.lenience, settled['verification'], shape.is_chain and self.auto != 'tree')

  @property
  def alone(self) -> 'Method':
    """The same without a drafter."""
    return dataclasses.replace(self, drafter=None, gamma=None, tree=None, lenience=None, verification=None, auto=None)

  @property
  def shape(self) -> Tree | None:
    """Of the draft, a chain or a tree; None without a drafter."""
    assert self.auto is None
    return None if self.drafter is None else inputs.checked_tree(self.gamma, self.tree)

  @property
  def gamma_or_tree(self) -> int | Tree:
    """Which of them the draft has; only with a drafter."""
    found = self.gamma or self.tree
    assert found is not None
    return found

  @property
  def name(self) -> str:
    if self.drafter is None:
      return 'target alone'
    shape = f"{self.auto} = 'auto'" if self.auto else self.shape and self.shape.name
    inexact = '' if self.lenience == 1 else f', lenience {self.lenience} (inexact)'
    by_block = ', block verification' if self.verification == 'block' else ''
    return f'drafter: {self.drafter.name}, {shape}{by_block}{inexact}'

  def __call__(self, target: Model, batch: Batch) -> Result:
    """Decodes a batch by what it holds of its inputs: ids, target prefixes and, of prompts, lengths."""
    several: dict[str, Any] = dict(target_prefix=batch.prefix, target_prefix_lengths=batch.prefix_lengths,
                                   num_samples=self.num_samples)
    if self.drafter is None:
      return autoregressive_decode(target, batch.tokens, **several, **self._arguments(batch))
    return speculative_decode(target, self.drafter, batch.tokens, trace=self.trace, **several, **self._arguments(batch))

  def stream(self, target: Model, batch: Batch) -> Stream:
    """The same of a batch of one input without a target prefix, iteration by iteration."""
    return stream(target, self.drafter, batch.tokens, **self._arguments(batch))

  def _arguments(self, batch: Batch) -> dict[str, Any]:
    common: dict[str, Any] = dict(
        sampling=self.sampling, max_decode_len=self.max_decode_len, seed=self.seed, ids=batch.ids,
        logits_processors=self.logits_processors, lengths=batch.lengths, buckets=())
    if self.drafter is None:
      return common
    return common | dict(tree=self.shape, lenience=1.0 if self.lenience is None else self.lenience,
                         verification=self.verification or 'token')

  def running(self, target: Model, rows: int, length: int, hand_back: int | None = None,
              prefix_length: int = 0) -> Running:
    """A loop that decodes by these settings, see `Running`; without a trace."""
    return running_decode(target, self.drafter, rows=rows, length=length, tree=self.shape, sampling=self.sampling,
                          max_decode_len=self.max_decode_len, seed=self.seed,
                          lenience=1.0 if self.lenience is None else self.lenience,
                          verification=self.verification or 'token', logits_processors=self.logits_processors,
                          num_samples=self.num_samples, prefix_length=prefix_length, hand_back=hand_back)
