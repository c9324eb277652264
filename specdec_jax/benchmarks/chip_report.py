"""What `chip.measure` found, as markdown and as a picture."""

from specdec_jax.reports import figures
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import warning

SYNTHETIC = ('The drafts are synthetic: each is run as it is, but what it proposes is the target\'s own continuation, '
             'corrupted so that alpha is the paper\'s. The weights are random.')


def markdown(found: dict, environment: dict) -> str:
  """The report of scripts/benchmark_gpu.py and scripts/benchmark_tpu.py."""
  device = environment['device']
  head = (f"# {found['target']} on {device['kind']}\n\n{found['dtype']}, batch {found['batch']}, inputs of "
          f"{found['input_length']} tokens, texts of {found['max_decode_len']}, medians of {found['repeats']}; jax "
          f"{environment['packages']['jax']}. {SYNTHETIC}\n\n")
  limit = (f"A decoder step reads {found['weight_bytes'] / 1e9:.2f} GB of weights. Memory was read at "
           f"{found['bytes_per_second'] / 1e9:.0f} GB/s in this run, so that a step takes at least "
           f"{1e3 * found['limit_step_seconds']:.2f} ms. The target alone made {found['alone']['tokens']} tokens in "
           f"{found['alone']['seconds']:.2f} s.\n\n")
  left_out = f"\nLeft out for want of time: {'; '.join(found['left_out'])}.\n" if found['left_out'] else ''
  reasons = found.get('unreliable', ())
  unsure = warning(f"the timings of the passes are unreliable ({'; '.join(reasons)}).") if reasons else ''
  return head + limit + _passes(found) + '\n' + _drafts(found) + '\n' + _decodes(found) + left_out + unsure


def _passes(found: dict) -> str:
  return table(['tokens of a pass', 'ms', 'verify cost', 'of the limit'],
               [[p['tokens'], number(1e3 * p['seconds']), number(p['verify_cost']), f"{p['of_limit']:.0%}"]
                for p in found['passes']])


def _drafts(found: dict) -> str:
  return table(['draft', 'step, ms', 'c', 'encoder, ms'],
               [[d['draft'], number(1e3 * d['step_seconds']), number(d['c'], 4), number(1e3 * d['encoder_seconds'])]
                for d in found['drafts']])


def _decodes(found: dict) -> str:
  header = ['task of the paper', 'draft (synthetic)', 'shape', 'alpha, chosen', 'tokens per call', 'speed-up',
            'expected of alpha, c and verify cost', 'the paper, TPU v4', 'texts']
  rows = [[d['task'], d['draft'], d['shape'], number(d['alpha']), number(d['tokens_per_call']),
           number(d['speed_up'], 2, 'X'), number(d['predicted'], 2, 'X'), number(d['paper'], 1, 'X'),
           'identical' if d['same_texts'] else 'differ'] for d in found['decodes']]
  return table(header, rows, 'lll' + 'r' * 5 + 'l')


def picture(found: dict):
  """The verify cost over the tokens of a pass, and the speed-up of every decode. A matplotlib `Figure`."""
  return figures.chip([(p['tokens'], p['verify_cost']) for p in found['passes']],
                      [(f"{d['draft'].removeprefix('t5_1_1_')}, {d['shape']}, alpha {d['alpha']:g}", d['speed_up'],
                        d['paper']) for d in found['decodes']])
