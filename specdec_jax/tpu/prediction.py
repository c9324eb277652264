"""Predicted speed: thm 3.8 with the c and the verify cost that the traffic gives."""

import dataclasses
import math
from typing import Any

from specdec_jax.analysis import theory
from specdec_jax.analysis.cost import Ratios
from specdec_jax.model import Model
from specdec_jax.parallel.partition import possible_parts
from specdec_jax.tpu import shapes
from specdec_jax.tpu.chips import Chip, num_devices
from specdec_jax.tpu.traffic import Assumptions, Pass, decoder_pass

_MOST_GAMMA = 32
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deployment:
  """Where and how a pair decodes.

  Attributes:
    target: a `Model` of shapes.
    drafter: a drafter of shapes, or None.
    chip, topology: such as 'v4' and '1x1x1'.
    batch, input_length, max_decode_len: shapes.
    assumptions: see `traffic`.
    data: groups of devices that each take a part of the batch; those of a group share the target.
    split_draft: the draft is split over the devices like the target; else each holds it whole.
  """

  target: Model
  drafter: Any
  chip: Chip
  topology: str
  batch: int
  input_length: int
  max_decode_len: int
  assumptions: Assumptions = Assumptions()
  data: int = 1
  split_draft: bool = False

  @property
  def devices(self) -> int:
    return num_devices(self.chip, self.topology)

  @property
  def draft(self) -> Model | None:
    return getattr(self.drafter, 'draft', None)

  @property
  def parts(self) -> int:
    """Devices that share the target."""
    return self.devices // self.data

  @property
  def rows(self) -> int:
    """Of the batch, on each device."""
    return math.ceil(self.batch / self.data)

  def cache_length(self, gamma: int) -> int:
    prefix = self.input_length if self.target.config.decoder_only else 1
    return prefix + self.max_decode_len + gamma + 1

  def target_pass(self, tokens: int, gamma: int) -> Pass:
    return decoder_pass(self.target, tokens, self.rows, self.input_length, self.cache_length(gamma))

  def draft_pass(self, gamma: int) -> Pass | None:
    if self.draft is None:
      return None
    return decoder_pass(self.draft, 1, self.rows, self.input_length, self.cache_length(gamma))

  def seconds(self, work: Pass, of_draft: bool = False) -> float:
    whole = of_draft and not self.split_draft
    return work.seconds(self.chip, self.assumptions, 1 if whole else self.parts)


def on_slice(deployment: Deployment, topology: str) -> Deployment:
  """On another slice, the target in as many parts as it divides into there."""
  devices = num_devices(deployment.chip, topology)
  parts = max(n for n in possible_parts(deployment.target.config) if devices % n == 0)
  return dataclasses.replace(deployment, topology=topology, data=devices // parts)


def holds(deployment: Deployment, gamma: int) -> bool:
  """Whether each device has room for its weights and caches and a twentieth beside, by size."""
  held = (shapes.num_bytes(deployment.target.params) + deployment.target_pass(1, gamma).caches) / deployment.parts
  draft_pass = deployment.draft_pass(gamma)
  if deployment.draft is not None and draft_pass is not None:
    draft = shapes.num_bytes(deployment.draft.params) + draft_pass.caches
    held += draft / (deployment.parts if deployment.split_draft else 1)
  return 1.05 * held <= deployment.chip.usable


def smallest_slice(deployment: Deployment, gamma: int) -> Deployment | None:
  """On the smallest slice of the chip that holds the pair, None where none that is known here does."""
  slices = (on_slice(deployment, topology) for topology in deployment.chip.slices)
  return next((on for on in slices if holds(on, gamma)), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicted(Ratios):
  """Times of the parts of an iteration and what follows from them; seconds.

  Attributes:
    gamma, alpha: as given; alpha None leaves what depends on it None.
    target_step, verify_pass, draft_step: one pass of each.
    speed_up: thm 3.8 with c and the verify cost.
    best_gamma: the gamma with the largest speed-up, 0 where no draft helps.
    tokens_per_second, tokens_per_second_alone: of the whole batch, encoder aside.
    pays_less_from_batch: the smallest batch at which the speed-up is less than nine tenths of
      that of batch 1; None where none is, of those up to 1024 that fit.
  """

  gamma: int
  alpha: float | None
  target_step: float
  verify_pass: float
  draft_step: float
  speed_up: float | None = None
  best_gamma: int | None = None
  tokens_per_second: float | None = None
  tokens_per_second_alone: float
  pays_less_from_batch: int | None = None


def predict(deployment: Deployment, gamma: int, alpha: float | None = None) -> Predicted:
  """From sizes alone: no compiler, no device."""
  at = _times(deployment, gamma, alpha)
  if alpha is None or not gamma:
    return at
  speeds = {g: _speed_up(deployment, g, alpha) for g in range(1, _MOST_GAMMA + 1)}
  best = max(speeds, key=lambda g: speeds[g])
  of_batch = {b: dataclasses.replace(deployment, batch=b) for b in _BATCHES}
  speed_up_of = {b: _speed_up(d, gamma, alpha) for b, d in of_batch.items() if b == 1 or holds(d, gamma)}
  less = [b for b, s in speed_up_of.items() if s < 0.9 * speed_up_of[1]]
  return dataclasses.replace(at, best_gamma=best if speeds[best] > 1 else 0,
                             pays_less_from_batch=min(less, default=None))


def _parts(deployment: Deployment, gamma: int) -> tuple[float, float, float]:
  """Seconds of a one-token step, a verify pass and a draft step."""
  draft = deployment.draft_pass(gamma)
  return (deployment.seconds(deployment.target_pass(1, gamma)),
          deployment.seconds(deployment.target_pass(gamma + 1, gamma)),
          0.0 if draft is None else deployment.seconds(draft, of_draft=True))


def _speed_up(deployment: Deployment, gamma: int, alpha: float) -> float:
  """Thm 3.8 with the verify cost."""
  step, verify, drafting = _parts(deployment, gamma)
  return float(theory.walltime_improvement(alpha, gamma, drafting / step, verify / step))


def _times(deployment: Deployment, gamma: int, alpha: float | None) -> Predicted:
  step, verify, drafting = _parts(deployment, gamma)
  alone = deployment.batch / step
  speed_up = _speed_up(deployment, gamma, alpha) if alpha is not None and gamma else None
  return Predicted(
      gamma=gamma, alpha=alpha, target_step=step, verify_pass=verify, draft_step=drafting,
      speed_up=speed_up, tokens_per_second_alone=alone,
      tokens_per_second=None if speed_up is None else alone * speed_up)
