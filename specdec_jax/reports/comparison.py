"""The compare run's report as markdown, and what it warns of."""

import functools

from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import sampling_name, unreliable, warning
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


def label(experiment: dict) -> str:
  inexact = '' if experiment['lenience'] == 1 else f", lenience {experiment['lenience']:g}"
  by_block = ', block verification' if experiment['verification'] == 'block' else ''
  name = sampling_name(Sampling(**experiment['sampling']))
  return f'{name}, {shape(experiment).name}{by_block}{inexact}'


def shape(experiment: dict) -> Tree:
  """Of its draft: a chain or a tree."""
  tree = experiment['tree']
  return Tree(tuple(tree)) if tree else Tree.chain(experiment['gamma'])


def markdown(result: dict) -> str:
  """The table, a column an experiment, and the sample texts."""
  experiments, device = result['experiments'], result['device']
  rows = [[title, *map(cell, experiments)] for title, cell in _rows(result)] if experiments else []
  head = (f"# Speculative decoding against the target alone\n\n"
          f"Target: {result['target']}. Drafter: {result['drafter']}.\n"
          f"{result['examples']} inputs ({result['cut_inputs']} of them cut), batch "
          f"{result['batch_size']}, up to {result['max_decode_len']} tokens, on "
          f"{device['count']} x {device['kind']}.\n\n")
  return (head + (table(['', *map(label, experiments)], rows) if experiments else '')
          + ''.join(map(_chosen, result['chosen'])) + ''.join(warnings(result))
          + ''.join(_texts(t) for t in result['texts'][:1]))


def _chosen(choice: dict) -> str:
  """What 'auto' stood for, a paragraph."""
  name = sampling_name(Sampling(**choice['sampling']))
  return f"\n{name}, {choice['setting']} = 'auto': {choice['draft']}. {choice['reason']}\n"


def warnings(result: dict) -> list[str]:
  """What a reader must know of the experiments, a paragraph each.

  Where the timings contradict each other, only that: nothing is concluded from them. Else those in which
  nothing is gained, and what would help.
  """
  found = []
  for e in result['experiments']:
    if not e['timings']['reliable']:
      found.append(unreliable(label(e), e['timings']['reasons'], 'compare.repeats'))
    elif e['speed_up'] < 1:
      found.append(warning(f"{label(e)}: {e['speed_up']:.2f}X, slower than the target alone; thm 3.8 expects "
                           f'{_expectation(e)}: {_mend(e, result)}.'))
    elif e['predicted_speed_up_with_verify_cost'] < 1:
      found.append(warning(f"{label(e)}: thm 3.8 expects {_expectation(e)}, and {e['speed_up']:.2f}X was measured: "
                           f'{_mend(e, result)}.'))
  return found


def _expectation(e: dict) -> str:
  return (f"{e['predicted_speed_up_with_verify_cost']:.2f}X (alpha {e['alpha']:.2f}, c {e['c']:.2f}, verify cost "
          f"{e['verify_cost']:.2f})")


def _mend(e: dict, result: dict) -> str:
  if e['tree']:
    return 'take a smaller tree or a chain, a faster draft (lower c) or a better one (higher alpha)'
  best, longest = e['best_gamma'], _longest_gamma(result)
  if not best:
    return f'no gamma up to {longest} helps; take a faster draft (lower c) or a better one (higher alpha)'
  if best != e['gamma']:
    return f'the best gamma is about {best}'
  return 'the rest goes where the theorem does not look: to encoders, and to rows of a batch that wait for the longest'


def _longest_gamma(result: dict) -> int:
  """No best gamma is known beyond it."""
  return max(e['gamma'] for e in result['experiments'] if e['gamma'])


def _rows(result):
  """(title, experiment -> cell), top to bottom; what only reliable timings tell is a dash without them."""
  get = lambda name, digits=2, suffix='': lambda e: number(e[name], digits, suffix)
  speed = lambda who: lambda e: number(e[who]['tokens_per_second'], 1)
  concluded = lambda name: lambda e: number(e[name], 2, 'X') if e['timings']['reliable'] else None
  explained = lambda who: lambda e: f"{e['timings']['explained'][who]:.0%}"
  error = lambda e: number(e['alpha_standard_error'], 3) or '?'
  by_rank = lambda e: ', '.join(f'{x:.3f}' for x in e['acceptance_by_rank'][:4]) if e['tree'] else None

  trees = any(e['tree'] for e in result['experiments'])

  def best_gamma(e):
    best = e['best_gamma']
    return f'{best} or more' if best and best == _longest_gamma(result) else best

  rows = [
      ('tokens/s, target alone', speed('target_alone')),
      ('tokens/s, speculative', speed('speculative')),
      ('speed-up', get('speed_up', 2, 'X')),
      ('timings', lambda e: 'reliable' if e['timings']['reliable'] else 'unreliable, see below'),
      ('outputs', lambda e: e['outputs']['relation']),
      ('alpha [cor. 3.6]', lambda e: f"{e['alpha']:.3f} ± {error(e)}"),
      ('acceptance rate', get('acceptance_rate', 3)),
      ('tokens per call', get('tokens_per_call')),
      ('tokens per call by eq. 1, of a tree by its ranks' if trees else 'tokens per call by eq. 1',
       get('expected_tokens_per_call')),
      ('c (draft step / target step)', get('c', 3)),
      ('verify cost (the whole draft / 1 token)' if trees else 'verify cost (gamma + 1 tokens / 1)',
       get('verify_cost')),
      ('speed-up by thm 3.8', concluded('predicted_speed_up')),
      ('the same with the verify cost', concluded('predicted_speed_up_with_verify_cost')),
      ('best gamma, with the verify cost', best_gamma),
      ('operations factor [thm 3.11]', get('operations_factor', 2, 'X')),
      ('time explained by its parts', explained('speculative')),
      ('the same of the target alone', explained('target alone')),
  ]
  if trees:
    rows[7:7] = [('accepted by rank, teacher-forced', by_rank)]
  if any(e['t5x'] for e in result['experiments']):
    rows[1:1] = [('tokens/s, T5X', speed('t5x'))]
    rows[4:4] = [('speed-up over T5X', get('speed_up_over_t5x', 2, 'X'))]
  for name in result['experiments'][0]['quality']:
    for who in ('target_alone', 'speculative'):
      rows.append((f"{name}, {who.replace('_', ' ')}",
                   functools.partial(lambda n, w, e: number(e['quality'][n][w], 1), name, who)))
  limit = result['short_input_len']
  if len(result['experiments'][0]['groups']) > 1:
    for name, words in (('short', f'inputs up to {limit} tokens'), ('long', 'longer inputs')):
      count = result['experiments'][0]['groups'][name]['inputs']
      rows.append((f'{words} ({count}): speed-up',
                   functools.partial(lambda n, e: number(e['groups'][n]['speed_up'], 2, 'X'), name)))
      rows.append((f'{words}: tokens per call',
                   functools.partial(lambda n, e: number(e['groups'][n]['tokens_per_call']), name)))
  return rows


def _texts(shown: dict) -> str:
  lines = [f"\nTexts, {sampling_name(Sampling(**shown['sampling']))}:\n"]
  for example in shown['examples']:
    lines.append(f"\n- source: {example['source']}\n"
                 f"  - target alone: {example['target_alone']}\n"
                 f"  - speculative: {example['speculative']}\n")
    if example['reference'] is not None:
      lines.append(f"  - reference: {example['reference']}\n")
  return ''.join(lines)

