"""The check run's report: what is not as it must be, and all of it as text."""

import numpy as np

from specdec_jax.analysis import theory
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import unreliable


def failures(result: dict) -> list[str]:
  """What is not as it must be, a sentence each."""
  found = []
  by_name = {row['draft']: row for row in result['drafts']}
  for name, row in by_name.items():
    if row['outputs']['not_ties']:
      wrong = len(row['outputs']['not_ties'])
      found.append(f"with {name} as the draft {wrong} texts are not the target's own")
  itself, own = by_name['the target itself'], by_name['the draft']
  rate = itself['acceptance_rate']
  if rate is not None and rate < 0.999:
    found.append(f'the target accepts only {rate:.3f} of what it drafts itself')
  for name in ('random weights', 'shuffled rows'):
    if by_name[name]['alpha'] >= own['alpha']:
      found.append(f'{name} agree with the target as often as the draft (alpha '
                   f"{by_name[name]['alpha']:.3f} and {own['alpha']:.3f})")
  exact, seen = (result['worked_example'][way] for way in ('arithmetic', 'simulation'))
  for part in ('acceptance', 'accepted', 'corrected'):
    p = np.asarray(exact[part])
    if np.any(np.abs(seen[part] - p) > 5 * np.sqrt(p * (1 - p) / result['worked_example']['samples'])):
      found.append(f'two tokens, {part}: simulation gives {seen[part]}, arithmetic {exact[part]}')
  return found


def markdown(result: dict) -> str:
  """The report as text."""
  gamma, device, two = result['gamma'], result['device'], result['worked_example']
  error = lambda row: number(row['alpha_standard_error'], 3) or '?'
  rows = [[row['draft'], row['outputs']['relation'], f"{row['alpha']:.3f} ± {error(row)}",
           number(row['acceptance_rate'], 3), number(row['tokens_per_call']),
           number(row['expected_tokens_per_call']), number(row['speed_up'], 2, 'X')]
          for row in result['drafts']]
  names = [f'token {i}' for i in range(len(two['p']))]
  numbers = lambda values: [number(v, 3) for v in values]
  ways = [('by arithmetic', two['arithmetic']), (f"{two['samples']} times", two['simulation'])]
  return (
      f"# Check: speculative decoding at temperature 0, gamma {gamma}\n\n"
      f"Target: {result['target']}. {result['examples']} inputs, batch {result['batch_size']}, up to "
      f"{result['max_decode_len']} tokens, on {device['count']} x {device['kind']}.\n\n"
      + table(['draft', 'outputs', 'alpha [cor. 3.6]', 'acceptance rate', 'tokens per call', 'by eq. 1',
               'speed-up'], rows, 'llrrrrr')
      + unreliable('speed-up', result['unreliable'], 'check.repeats')
      + f'\nEq. 1 with gamma {gamma}: alpha 0.7 gives {theory.expected_tokens(0.7, gamma):.2f} tokens '
        f'per call, 0.9 gives {theory.expected_tokens(0.9, gamma):.2f}.\n\n'
      f"One draft token, p = {two['p']}, q = {two['q']}:\n\n"
      + table(['', *names, 'accepted in all'],
              [line for way, outcome in ways for line in (
                  [f'accepted, {way}', *numbers(outcome['accepted']), number(outcome['acceptance'], 3)],
                  [f'corrected, {way}', *numbers(outcome['corrected']), None],
                  [f'what comes out, {way}', *numbers(outcome['distribution']), None])])
      + ''.join(f'\n**Wrong:** {f}.\n' for f in result['failures']))
