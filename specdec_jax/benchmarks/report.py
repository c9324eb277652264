"""Decoders side by side, as markdown and as a picture."""

from collections.abc import Sequence

from specdec_jax.analysis import reliability
from specdec_jax.reports import figures
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import unreliable

_OURS = 'specdec_jax, target alone'


def markdown(result: dict) -> str:
  """The report of scripts/benchmark.py."""
  machine = result['environment']
  versions = ', '.join(f'{name} {version}' for name, version in result['versions'].items())
  parts = [f"# Side by side\n\nTarget: {result['target']}. Draft: {result['draft']}. Greedy, up to "
           f"{result['max_decode_len']} tokens, medians of {result['repeats']}, on {machine['device']['count']} x "
           f"{machine['device']['kind']} ({machine['cpus']} cores; {versions}).\n"]
  if result['one_by_one']:
    parts.append(f"\n## Batch 1, {result['inputs']} inputs\n\n" + _one_by_one(result))
  if result['job']:
    parts.append(f"\n## A job at batch size {result['batch_size']}, {result['job_inputs']} inputs\n\n" + _job(result))
  return ''.join(parts)


def _one_by_one(result: dict) -> str:
  rows, first = result['one_by_one'], _first_other(result['one_by_one'])
  header = ['decoder', 'tokens/s', 'spread', 'over our target alone', *([f'over {first}'] if first else []),
            'of the limit', 'tokens per call', 'acceptance rate', 'equal texts']
  limit = result['limit']['tokens_per_second']
  cells = [[row['decoder'], number(row['tokens_per_second'], 1), _share(row['spread']), _over(row, rows, _OURS),
            *([_over(row, rows, first)] if first else []), _share(row['tokens_per_second'] / limit),
            number(row['tokens_per_call']), number(row['acceptance_rate'], 3),
            f"{row['equal_texts']} of {row['texts']}"] for row in rows]
  megabytes, speed = result['limit']['bytes'] / 1e6, result['limit']['speed'] / 1e9
  return (table(header, cells) + f'\nThe limit of {limit:.1f} tokens/s is what one token a pass cannot exceed: the '
          f'{megabytes:.1f} MB of weights that a step reads, at {speed:.1f} GB/s, measured in this run. '
          f"{result['best_reason']}\n" + _unreliable(rows))


def _job(result: dict) -> str:
  rows, first = result['job'], _first_other(result['job'])
  header = ['decoder', 'tokens/s', 'spread', 'over our target alone', *([f'over {first}'] if first else []),
            'equal texts']
  cells = [[row['decoder'], number(row['tokens_per_second'], 1), _share(row['spread']), _over(row, rows, _OURS),
            *([_over(row, rows, first)] if first else []), f"{row['equal_texts']} of {row['texts']}"] for row in rows]
  return (table(header, cells) + '\nOurs run in rows that are filled again, the others batch after batch, inputs of '
          'like length together.\n' + _unreliable(rows))


def picture(result: dict):
  """Tokens/s of every decoder, a panel of bars for batch 1 and one for the job. A matplotlib `Figure`."""
  panels = [(title, rows) for title, rows in (
      ('batch 1', result['one_by_one']), (f"a job at batch size {result['batch_size']}", result['job'])) if rows]
  return figures.bars([(title, [(row['decoder'], row['tokens_per_second']) for row in rows])
                       for title, rows in panels], 'tokens/s')


def _first_other(rows: Sequence[dict]) -> str | None:
  """What stands in a column of its own: T5X's decode, or else transformers'."""
  names = [row['decoder'] for row in rows]
  return next((name for name in ('T5X', 'transformers, generate') if name in names), None)


def _over(row: dict, rows: Sequence[dict], name: str | None) -> str | None:
  base = next(r for r in rows if r['decoder'] == name)
  return number(row['tokens_per_second'] / base['tokens_per_second'], 2, 'X')


def _share(value: float | None) -> str | None:
  return None if value is None else f'{value:.0%}'


def _unreliable(rows: Sequence[dict]) -> str:
  return unreliable('tokens/s', reliability.of_repeats({r['decoder']: r['spread'] for r in rows}), '--repeats')
