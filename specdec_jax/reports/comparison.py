"""The compare run's report as markdown, and what it warns of."""

from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.sampling import Sampling


def describe(model) -> str:
  cfg = model.config
  if cfg.decoder_only:
    return f'GPT-2 ({cfg.num_layers} layers of width {cfg.emb_dim}, {cfg.dtype})'
  return (f'T5 ({cfg.num_encoder_layers} encoder and {cfg.num_decoder_layers} decoder layers of '
          f'width {cfg.emb_dim}, {cfg.dtype})')


def sampling_name(sampling: Sampling) -> str:
  name = 'greedy' if sampling.greedy else f'temperature {sampling.temperature:g}'
  name += f', top-k {sampling.top_k}' if sampling.top_k else ''
  return name + (f', top-p {sampling.top_p:g}' if sampling.top_p < 1 else '')


def label(experiment: dict) -> str:
  inexact = '' if experiment['lenience'] == 1 else f", lenience {experiment['lenience']:g}"
  name = sampling_name(Sampling(**experiment['sampling']))
  return f"{name}, gamma {experiment['gamma']}{inexact}"


def markdown(result: dict) -> str:
  """The table, a column an experiment, and the sample texts."""
  experiments, device = result['experiments'], result['device']
  rows = [[title, *map(cell, experiments)] for title, cell in _rows(result)]
  head = (f"# Speculative decoding against the target alone\n\n"
          f"Target: {result['target']}. Drafter: {result['drafter']}.\n"
          f"{result['examples']} inputs ({result['cut_inputs']} of them cut), batch "
          f"{result['batch_size']}, up to {result['max_decode_len']} tokens, on "
          f"{device['count']} x {device['kind']}.\n\n")
  return (head + table(['', *map(label, experiments)], rows)
          + ''.join(f'\n**Warning:** {w}\n' for w in warnings(result))
          + ''.join(_texts(t) for t in result['texts'][:1]))


def warnings(result: dict) -> list[str]:
  """Experiments that thm 3.8 expects to be slower than the target alone, and what would help."""
  found = []
  for e in result['experiments']:
    predicted = min(e['predicted_speed_up'], e['predicted_speed_up_with_verify_cost'])
    if predicted < 1:
      best = e['best_gamma']
      mend = f'the best gamma is about {best}' if best else (
          'no gamma helps; take a faster draft (lower c) or a better one (higher alpha)')
      found.append(
          f"{label(e)}: thm 3.8 predicts {predicted:.2f}X, slower than the target alone (alpha "
          f"{e['alpha']:.2f}, c {e['c']:.2f}, verify cost {e['verify_cost']:.2f}): {mend}.")
  return found


def _rows(result):
  """(title, experiment -> cell), top to bottom."""
  get = lambda name, digits=2, suffix='': lambda e: number(e[name], digits, suffix)
  speed = lambda who: lambda e: number(e[who]['tokens_per_second'], 1)
  error = lambda e: number(e['alpha_standard_error'], 3) or '?'
  rows = [
      ('tokens/s, target alone', speed('target_alone')),
      ('tokens/s, speculative', speed('speculative')),
      ('speed-up', get('speed_up', 2, 'X')),
      ('outputs', lambda e: e['outputs']['relation']),
      ('alpha [cor. 3.6]', lambda e: f"{e['alpha']:.3f} ± {error(e)}"),
      ('acceptance rate', get('acceptance_rate', 3)),
      ('tokens per call', get('tokens_per_call')),
      ('tokens per call by eq. 1', get('expected_tokens_per_call')),
      ('c (draft step / target step)', get('c', 3)),
      ('verify cost (gamma + 1 tokens / 1)', get('verify_cost')),
      ('speed-up by thm 3.8', get('predicted_speed_up', 2, 'X')),
      ('the same with the verify cost', get('predicted_speed_up_with_verify_cost', 2, 'X')),
      ('best gamma, with the verify cost', get('best_gamma', 0)),
      ('operations factor [thm 3.11]', get('operations_factor', 2, 'X')),
      ('time explained by its parts', lambda e: f"{e['explained_time']:.0%}"),
  ]
  if any(e['t5x'] for e in result['experiments']):
    rows[1:1] = [('tokens/s, T5X', speed('t5x'))]
    rows[4:4] = [('speed-up over T5X', get('speed_up_over_t5x', 2, 'X'))]
  for name in result['experiments'][0]['quality']:
    for who in ('target_alone', 'speculative'):
      rows.append((f"{name}, {who.replace('_', ' ')}",
                   lambda e, n=name, w=who: number(e['quality'][n][w], 1)))
  limit = result['short_input_len']
  if len(result['experiments'][0]['groups']) > 1:
    for name, words in (('short', f'inputs up to {limit} tokens'), ('long', 'longer inputs')):
      count = result['experiments'][0]['groups'][name]['inputs']
      rows.append((f'{words} ({count}): speed-up',
                   lambda e, n=name: number(e['groups'][n]['speed_up'], 2, 'X')))
      rows.append((f'{words}: tokens per call',
                   lambda e, n=name: number(e['groups'][n]['tokens_per_call'])))
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


def alphas(result: dict) -> str:
  """The alphas run's table: a row a drafter, a column a sampling and lenience."""
  cells, columns = {}, {}
  for m in result['alphas']:
    name = sampling_name(Sampling(**m['sampling']))
    name += '' if m['lenience'] == 1 else f", lenience {m['lenience']:g}"
    columns[name] = None
    error = number(m['standard_error'], 3) or '?'
    cells[m['drafter'], name] = f"{m['alpha']:.3f} ± {error}"
  rows = [[drafter, *(cells[drafter, c] for c in columns)] for drafter in result['drafters']]
  fewest = min(m['tokens'] for m in result['alphas'])
  return (f"# Alpha [cor. 3.6] over the target's own texts\n\nTarget: {result['target']}. "
          f"{fewest} tokens or more a column, of {result['examples']} inputs.\n\n"
          + table(['drafter', *columns], rows))
