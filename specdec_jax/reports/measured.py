"""What compare runs measured, from their report.json, beside what the theory says."""

import dataclasses
import json
import os
from collections.abc import Sequence

from specdec_jax.analysis import theory
from specdec_jax.errors import InputError, MissingError, SettingError
from specdec_jax.files.reading import read_text
from specdec_jax.reports import paper
from specdec_jax.results import acceptance_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """One experiment of a compare run.

  Attributes:
    drafter, temperature, gamma, lenience: what was run.
    alpha: by cor. 3.6.
    c, c_hat, verify_cost: as in `theory`.
    tokens_per_call, speed_up: measured.
    reliable: whether the timings agree with each other [`analysis.reliability`]; None where the report does not say.
    verification: the acceptance rule.
    acceptance: acceptance rate by place in the block, where the report holds it.
    speed_up_over_t5x: where T5X was timed too.
    relation: how the outputs compare with the target's own.
    task: as a table calls it.
    printed: the paper's row for it, if it has one.
  """

  drafter: str
  temperature: float
  gamma: int
  alpha: float
  c: float
  c_hat: float
  verify_cost: float
  tokens_per_call: float
  speed_up: float
  reliable: bool | None = None
  lenience: float = 1.0
  verification: str = 'token'
  acceptance: tuple[float, ...] = ()
  speed_up_over_t5x: float | None = None
  relation: str = ''
  task: str = ''
  printed: paper.Experiment | None = None

  @classmethod
  def of(cls, experiment: dict, drafter: str, task: str = '', printed: paper.Experiment | None = None):
    """From an experiment of report.json."""
    e = experiment
    return cls(drafter=drafter, task=task, printed=printed, temperature=e['sampling']['temperature'],
               reliable=e.get('timings', {}).get('reliable'), lenience=e.get('lenience', 1.0),
               verification=e.get('verification', 'token'),
               acceptance=acceptance_rates(e.get('accepted_by_position', ()), e.get('drafted_by_position', ())),
               speed_up_over_t5x=e.get('speed_up_over_t5x'),
               relation=e.get('outputs', {}).get('relation', ''),
               **{n: e[n] for n in ('gamma', 'alpha', 'c', 'c_hat', 'verify_cost', 'tokens_per_call',
                                    'speed_up')})

  @property
  def name(self) -> str:
    return (self.drafter + (', block verification' if self.verification == 'block' else '')
            + (f', lenience {self.lenience:g}' if self.lenience < 1 else ''))

  @property
  def predicted(self) -> float:
    """Thm 3.8."""
    return float(theory.walltime_improvement(self.alpha, self.gamma, self.c))

  @property
  def predicted_with_verify_cost(self) -> float:
    return float(theory.walltime_improvement(self.alpha, self.gamma, self.c, self.verify_cost))

  @property
  def operations(self) -> float:
    """Measured counterpart of thm 3.11: operations of an iteration over those of its tokens."""
    return (self.gamma * self.c_hat + self.gamma + 1) / self.tokens_per_call


def read(paths: Sequence[str | os.PathLike]) -> list[Measured]:
  """The experiments with chains of one or more report.json files, in order: the paper's tables and curves know gamma.

  Raises:
    FileNotFoundError, ValueError: a line that names the file.
  """
  return [m for path in paths for m in _read(path)]


def acceptance_rates(accepted: Sequence[int], drafted: Sequence[int]) -> tuple[float, ...]:
  """Acceptance rate by place in the block, as far as anything was drafted there."""
  rates = (acceptance_rate(a, d) for a, d in zip(accepted, drafted))
  return tuple(rate for rate in rates if rate is not None)


def _read(path: str | os.PathLike):
  try:
    report = json.loads(read_text(path, 'report'))
    yield from (Measured.of(e, report['drafter']) for e in report['experiments'] if not e.get('tree'))
  except MissingError as e:
    raise MissingError(f'{e} A compare run writes one: --gin_file=configs/demo/compare.gin.') from None
  except InputError:
    raise
  except (ValueError, KeyError, TypeError) as e:
    raise SettingError(f"'{path}' is not the report.json of a compare run ({e!r}).") from None
