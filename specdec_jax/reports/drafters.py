"""The drafters run's report as markdown."""

from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import sampling_name, unreliable
from specdec_jax.sampling import Sampling


def markdown(result: dict) -> str:
  """A row a drafter, sampling and draft length."""
  device = result['device']
  head = (f"# Drafters\n\nTarget: {result['target']}.\n{result['examples']} inputs ({result['cut_inputs']} of them "
          f"cut), batch {result['batch_size']}, up to {result['max_decode_len']} tokens, on {device['count']} x "
          f"{device['kind']}.\n\n")
  header = ['sampling', 'drafter', 'gamma', 'alpha', 'c', 'verify cost', 'tokens a call', 'speed-up', 'outputs']
  rows = [[_name(row), row['drafter'], row['gamma'],
           f"{row['alpha']:.3f} ± {number(row['alpha_standard_error'], 3) or '-'}", number(row['c'], 3),
           number(row['verify_cost']), number(row['tokens_per_call']), number(row['speed_up'], 2, 'X'),
           row['outputs']['relation']] for row in result['rows']]
  doubts = [unreliable(f"{row['drafter']}, {_name(row)}", row['timings']['reasons'], 'drafters.repeats')
            for row in result['rows']]
  named = table(['drafter', 'which is'], result['drafters'].items(), 'll')
  return head + table(header, rows, 'llrrrrrrl') + '\n' + named + ''.join(doubts)


def _name(row: dict) -> str:
  return sampling_name(Sampling(**row['sampling']))
