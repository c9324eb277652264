"""The beyond run's report as markdown."""

from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import sampling_name, unreliable
from specdec_jax.sampling import Sampling


def markdown(result: dict) -> str:
  """A row a draft and sampling; then acceptance by rank, and what 'auto' would choose."""
  device = result['device']
  head = (f"# Beyond the paper's chain\n\nTarget: {result['target']}. Drafter: {result['drafter']}.\n"
          f"{result['examples']} inputs ({result['cut_inputs']} of them cut), batch {result['batch_size']}, up to "
          f"{result['max_decode_len']} tokens, on {device['count']} x {device['kind']}.\n\n")
  chains = {m['longest_chain'] for m in result['samplings']}
  header = ['sampling', 'draft', 'rule', 'tokens a call', 'walked', 'difference', f"over {', '.join(sorted(chains))}",
            'speed-up here', 'an iteration, in steps', 'speed-up on a v4', 'outputs']
  rows = [_cells(m, row) for m in result['samplings'] for row in m['drafts']]
  warnings = [unreliable(f'speed-up, {_name(m)}', m['unreliable'], 'beyond.repeats') for m in result['samplings']]
  return (head + table(header, rows, 'lll' + 'r' * 7 + 'l') + f'\n{_ranks(result)}\n{_chosen(result)}'
          + ''.join(warnings))


def _cells(measured: dict, row: dict) -> list:
  difference = row['walk_difference']
  return [_name(measured), row['draft'], row['verification'], number(row['tokens_per_call'], 3),
          number(row['walked_tokens_per_call'], 3), None if difference is None else f'{difference:+.1%}',
          number(row['over_chain']), number(row['speed_up'], 2, 'X'), number(row['iteration_cost']),
          number(row['speed_up_on_v4'], 2, 'X'), row['outputs']['relation']]


def _ranks(result: dict) -> str:
  """How often the first, second, ... candidate was the one accepted."""
  shown = min(8, *(len(m['acceptance_by_rank']) for m in result['samplings']))
  return table(['accepted by rank', 'tokens', *map(str, range(1, shown + 1))],
               [[_name(m), m['tokens'], *(number(x, 3) for x in m['acceptance_by_rank'][:shown])]
                for m in result['samplings']])


def _chosen(result: dict) -> str:
  """What 'auto' would choose; '' where that was not asked."""
  rows = [[f"{what} = 'auto', {_name(m)}", choice['draft'], choice['reason']]
          for m in result['samplings'] for what, choice in m['chosen'].items()]
  return table(['setting', 'would choose', 'because of'], rows, 'lll') if rows else ''


def _name(measured: dict) -> str:
  return sampling_name(Sampling(**measured['sampling']))
