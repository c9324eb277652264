"""The beam run's report as markdown."""

from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import unreliable


def markdown(result: dict) -> str:
  """The table, a column a search, and the sample texts."""
  device = result['device']
  head = (f"# Speculative beam search against the plain one\n\n"
          f"Target: {result['target']}. Drafter: {result['drafter']}.\n"
          f"{result['examples']} inputs ({result['cut_inputs']} of them cut), {result['num_beams']} "
          f"beams, length penalty {result['alpha']:g}, batch {result['batch_size']}, up to "
          f"{result['max_decode_len']} tokens, on {device['count']} x {device['kind']}.\n\n")
  columns = [result['plain'], *result['speculative']]
  names = ['', 'plain', *(name(s['draft_beams'], s['gamma']) for s in result['speculative'])]
  rows = [[title, *map(cell, columns)] for title, cell in _rows(result['examples'])]
  return (head + table(names, rows) + unreliable('speed-up', result['unreliable'], 'beam.repeats')
          + _texts(result['texts']))


def name(draft_beams: int, gamma: int) -> str:
  """Of a speculative search."""
  return f'u {draft_beams}, gamma {gamma}'


def _rows(examples: int):
  """(title, search -> cell), top to bottom; what the plain search has not is a dash."""
  get = lambda name, digits=2, suffix='': lambda s: number(s.get(name), digits, suffix)
  return [
      ('target calls', get('target_calls', 0)),
      ('target calls a text', get('calls_per_text')),
      ('steps a target call', get('steps_per_call')),
      ('drafted steps', lambda s: s['drafted'] or None),
      ('accepted steps', lambda s: s['accepted'] if s['drafted'] else None),
      ('acceptance rate of steps', get('acceptance_rate', 3)),
      ('texts/s', get('texts_per_second')),
      ('speed-up', get('speed_up', 2, 'X')),
      ('best texts', _outputs('best_identical', examples)),
      ('all beams', _outputs('identical', examples)),
      ('largest difference of scores', lambda s: (
          f"{s['score_difference']:.1e}" if 'score_difference' in s else None)),
  ]


def _outputs(name, examples):
  def cell(search):
    if name not in search:
      return None
    return 'identical' if search[name] == examples else f'{search[name]} of {examples} identical'
  return cell


def _texts(shown: list[dict]) -> str:
  lines = ['\nBest texts:\n'] if shown else []
  for text in shown:
    lines.append(f"\n- source: {text['source']}\n  - plain: {text['plain']}\n"
                 f"  - speculative: {text['speculative']}\n  - score: {text['score']:.3f}\n")
    lines += [f"  - beam {i}, {beam['score']:.3f}: {beam['text']}\n" for i, beam in enumerate(text.get('beams', ()), 1)]
  return ''.join(lines)
