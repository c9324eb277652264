"""What compare runs measured, read from their report.json, beside what the theory says."""

from collections.abc import Sequence
import dataclasses
import json
import os

from specdec_jax.analysis import paper
from specdec_jax.analysis import tables
from specdec_jax.analysis import theory


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measured:
  """One experiment of a compare run.

  Attributes:
    drafter, temperature, gamma, lenience: what was run.
    alpha: by cor. 3.6.
    c, c_hat, verify_cost: as in `theory`.
    tokens_per_call, speed_up: measured.
    acceptance: accepted over tested draft tokens by place in the block, where the
      report holds them.
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
  lenience: float = 1.0
  acceptance: tuple[float, ...] = ()

  @property
  def predicted(self) -> float:
    """Thm 3.8."""
    return theory.walltime_improvement(self.alpha, self.gamma, self.c)

  @property
  def predicted_with_verify_cost(self) -> float:
    return theory.walltime_improvement(self.alpha, self.gamma, self.c, self.verify_cost)

  @property
  def operations(self) -> float:
    """Measured counterpart of thm 3.11: operations of an iteration over those of its tokens."""
    return (self.gamma * self.c_hat + self.gamma + 1) / self.tokens_per_call


def read(paths: Sequence[str | os.PathLike]) -> list[Measured]:
  """The experiments of one or more report.json files, in order.

  Raises:
    FileNotFoundError, ValueError: a line that names the file.
  """
  return [m for path in paths for m in _read(os.path.expanduser(os.fspath(path)))]


def table_4(experiments: Sequence[Measured], with_paper: bool = False) -> str:
  """Measured against predicted speed-up, in the form of the paper's Table 4; markdown.

  Args:
    experiments: of `read`.
    with_paper: append the paper's rows, whose verify cost is 1 by assumption.
  """
  name = lambda m: m.drafter + (f', lenience {m.lenience:g}' if m.lenience < 1 else '')
  ours = [(name(m), m.temperature, m.gamma, m.alpha, m.c, m.verify_cost, m.speed_up, m.predicted,
           m.predicted_with_verify_cost) for m in experiments]
  theirs = [(f'paper: {e.task}, {e.draft}', e.temperature, e.gamma, e.alpha, paper.C[e.draft], None,
             e.speed_up, e.predicted, None) for e in paper.TABLE_4] if with_paper else []
  number = tables.number
  rows = [(drafter, f'{temperature:g}', gamma, number(alpha), number(c, 3), number(verify_cost),
           number(speed_up, 2, 'X'), number(predicted, 2, 'X'), number(with_cost, 2, 'X'))
          for (drafter, temperature, gamma, alpha, c, verify_cost, speed_up, predicted,
               with_cost) in ours + theirs]
  return tables.markdown(['M_q', 'temperature', 'gamma', 'alpha', 'c', 'verify cost', 'speed-up',
                          'thm 3.8', 'with the verify cost'], rows)


def _read(path: str):
  try:
    with open(path, encoding='utf-8') as f:
      report = json.load(f)
    for e in report['experiments']:
      yield Measured(
          drafter=report['drafter'], temperature=e['sampling']['temperature'],
          lenience=e.get('lenience', 1.0), acceptance=_acceptance(e),
          **{n: e[n] for n in ('gamma', 'alpha', 'c', 'c_hat', 'verify_cost', 'tokens_per_call',
                               'speed_up')})
  except FileNotFoundError:
    raise FileNotFoundError(f"There is no report at '{path}'; a compare run writes one: "
                            '--gin_file=configs/demo/compare.gin.') from None
  except (ValueError, KeyError, TypeError) as e:
    raise ValueError(f"'{path}' is not the report.json of a compare run ({e!r}).") from None


def _acceptance(experiment: dict) -> tuple[float, ...]:
  """accepted_by_position over the blocks in which the place before was accepted.

  The last block of a text is often cut at EOS, so this is a little low.
  """
  accepted = experiment.get('accepted_by_position', ())
  reached = [experiment['target_calls'], *accepted]
  return tuple(a / r for a, r in zip(accepted, reached) if r)
