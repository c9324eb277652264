"""Our reports in the form of the paper's Tables 2 to 5, the paper's figures beside ours.

Each function takes what the compare and alphas runs measured and returns a header and
rows, for `reports.tables.markdown` and for CSV; None where there is no figure.
"""

from collections.abc import Sequence

from specdec_jax.reports import paper
from specdec_jax.reports.measured import Measured
from specdec_jax.reports.tables import number
from specdec_jax.reports.words import sampling_name
from specdec_jax.sampling import Sampling


def table_2(measured: Sequence[Measured]):
  """Speed-ups, over T5X where it was timed and over our own one-token decoder."""
  header = ['task', 'M_q', 'temp', 'gamma', 'alpha, paper', 'alpha', 'speed-up, paper',
            'over T5X', 'over our one-token decoder', 'outputs', 'timings']
  rows = []
  for m in measured:
    p = m.printed
    rows.append([m.task or None, m.name, f'{m.temperature:g}', m.gamma, p and number(p.alpha),
                 number(m.alpha), p and number(p.speed_up, 1, 'X'),
                 number(m.speed_up_over_t5x, 2, 'X'), number(m.speed_up, 2, 'X'), m.relation, _timings(m)])
  return header, rows


def table_4(measured: Sequence[Measured]):
  """What thm 3.8 expects beside what was measured; nothing from unreliable timings."""
  header = ['task', 'M_q', 'temp', 'gamma', 'alpha', 'c', 'verify cost', 'thm 3.8',
            'with the verify cost', 'measured', 'thm 3.8, paper', 'measured, paper', 'timings']
  rows = []
  for m in measured:
    p = m.printed
    predicted = (None, None) if m.reliable is False else (m.predicted, m.predicted_with_verify_cost)
    rows.append([m.task or None, m.name, f'{m.temperature:g}', m.gamma, number(m.alpha),
                 number(m.c, 3), number(m.verify_cost), *(number(x, 2, 'X') for x in predicted),
                 number(m.speed_up, 2, 'X'), p and number(p.predicted, 1, 'X'), p and number(p.speed_up, 1, 'X'),
                 _timings(m)])
  return header, rows


def alphas(report: dict, target: str | None = None, task: str | None = None, digits: int = 2):
  """Tables 3 and 5's alphas, a row a drafter and temperature, a column a lenience.

  Args:
    report: of the alphas run.
    target, task: whose printed alphas stand beside ours where a drafter has the paper's
      name; both for Table 3.
    digits: after the point.
  """
  leniences = list(dict.fromkeys(m['lenience'] for m in report['alphas']))
  columns = ['alpha'] if leniences == [1.0] else [f'l = {lenience:g}' for lenience in leniences]
  found = {}
  for m in report['alphas']:
    key = m['drafter'], sampling_name(Sampling(**m['sampling'])), m['sampling']['temperature']
    found.setdefault(key, []).append(m)
  header, rows = ['drafter', 'sampling', *columns], []
  for (drafter, sampling, temperature), ms in found.items():
    rows.append([drafter, sampling, *(
        f"{m['alpha']:.{digits}f} ± {number(m['standard_error'], digits) or '?'}" for m in ms)])
    if task is not None:
      printed = [r.alpha for r in paper.TABLE_3 if (r.target, r.task, r.draft, r.temperature) == (
          target, task, drafter, temperature)]
      rows[-1].append(number(printed[0]) if printed else None)
  return (header + ['paper'] if task is not None else header), rows


def lenient_speed_ups(report: dict):
  """Table 5's other half: what lenience gains, and what it costs in quality."""
  metrics = list(report['experiments'][0]['quality'])
  header = ['sampling', 'gamma', 'lenience', 'alpha', 'tokens per call', 'speed-up', 'outputs',
            *metrics]
  rows = [[sampling_name(Sampling(**e['sampling'])), e['gamma'], f"{e['lenience']:g}",
           number(e['alpha']), number(e['tokens_per_call']), number(e['speed_up'], 2, 'X'),
           e['outputs']['relation'], *(number(e['quality'][m]['speculative'], 1) for m in metrics)]
          for e in report['experiments']]
  return header, rows


def _timings(m: Measured) -> str | None:
  return None if m.reliable is None else 'reliable' if m.reliable else 'unreliable'


def filled(header, rows):
  """A table without the columns that have no figure at all."""
  kept = [i for i in range(len(header)) if any(row[i] is not None for row in rows)]
  return [header[i] for i in kept], [[row[i] for i in kept] for row in rows]
