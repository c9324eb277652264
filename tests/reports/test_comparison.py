"""The compare run's page for figures that were made up."""

import copy

from paper_reports import EXPERIMENT, REPORT

from specdec_jax.reports import comparison

SLOW = {**EXPERIMENT, 'speed_up': 0.8, 'predicted_speed_up': 0.9, 'predicted_speed_up_with_verify_cost': 0.82,
        'best_gamma': 0}
REASONS = ['a pass over 8 tokens took 0.55 of the time of a one-token pass',
           'speculative: the parts, timed alone, add up to 264% of the time']


def unreliable(**changes):
  return {**EXPERIMENT, 'best_gamma': None, **changes,
          'timings': {'reliable': False, 'reasons': REASONS, 'explained': {'target alone': 1.0, 'speculative': 2.64}}}


def page(*experiments):
  return comparison.markdown({**REPORT, 'experiments': list(experiments)})


def warn(*experiments):
  return comparison.warnings({'experiments': list(experiments)})


def cells(text, title):
  """Of a row of the table, by experiment."""
  rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in text.splitlines() if line.startswith('|')]
  found, = (row[1:] for row in rows if row[0] == title)
  return found


def test_unreliable_timings_are_called_so_and_nothing_is_concluded():
  text = page(unreliable(speed_up=1.55, predicted_speed_up_with_verify_cost=0.7), EXPERIMENT)
  assert cells(text, 'timings') == ['unreliable, see below', 'reliable']
  assert cells(text, 'speed-up') == ['1.55X', '2.99X']
  for conclusion in ('speed-up by thm 3.8', 'the same with the verify cost', 'best gamma, with the verify cost'):
    assert cells(text, conclusion)[0] == '-' != cells(text, conclusion)[1]
  assert cells(text, 'time explained by its parts') == ['264%', '92%']
  assert text.count('**Warning:**') == 1 and 'slower' not in text
  assert all(reason in text for reason in REASONS) and 'compare.repeats of 3 or more' in text


def test_slower_is_said_only_of_what_was_measured_slower():
  assert 'greedy, gamma 7: 0.80X, slower than the target alone; thm 3.8 expects 0.82X' in warn(SLOW)[0]
  assert 'no gamma up to 7 helps' in warn(SLOW)[0]
  for speed_up in (1.0, 1.55):
    found, = warn({**SLOW, 'speed_up': speed_up})
    assert 'slower' not in found and 'thm 3.8 expects 0.82X' in found and f'{speed_up:.2f}X was measured' in found
  assert warn(EXPERIMENT) == []
  assert 'slower' not in warn(unreliable(speed_up=0.8))[0]


def test_the_mend():
  assert 'the best gamma is about 2.' in warn({**SLOW, 'best_gamma': 2})[0]
  assert 'encoders, and to rows of a batch' in warn({**SLOW, 'best_gamma': 7})[0]


def test_no_best_gamma_beyond_what_was_measured():
  shorter = {**copy.deepcopy(EXPERIMENT), 'gamma': 3, 'best_gamma': 4}
  assert cells(page(shorter, EXPERIMENT), 'best gamma, with the verify cost') == ['4', '7 or more']


def test_nothing_drafted_is_a_dash():
  assert cells(page({**EXPERIMENT, 'acceptance_rate': None}), 'acceptance rate') == ['-']
