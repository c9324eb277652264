"""Several decoders of the same weights over the same inputs, ours and others', in one table."""

import jax

from specdec_jax.analysis import reliability
from specdec_jax.errors import RunFailed
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure import agreement
from specdec_jax.measure.timing import time_methods
from specdec_jax.reports.tables import markdown, number
from specdec_jax.reports.words import model_name, unreliable
from specdec_jax.results import acceptance_rate


def compare(target, examples, methods, repeats: int, max_input_len: int, max_decode_len: int,
            others: str) -> None:
  """Prints the table of `measure` over examples at batch 1.

  Args:
    target, methods, repeats: as in `measure`.
    examples: of `data.examples.Example`.
    max_input_len: longer inputs are refused.
    max_decode_len: of the methods, for the heading.
    others: whose texts the first method gives, such as 'T5X'.

  Raises:
    RunFailed: texts differ where no tie explains it; the table is printed first.
  """
  options = InputOptions(max_input_len=max_input_len)
  inputs = options.encode(target, examples)
  batches = options.batches(inputs)
  table, wrong = measure(target, inputs, batches, methods, repeats)
  print(f'Target: {model_name(target)}. {len(examples)} inputs at batch 1, greedy, up to '
        f'{max_decode_len} tokens, medians of {repeats}, on {jax.devices()[0].device_kind}.\n\n{table}')
  if wrong:
    possessive = others + ("'" if others.endswith('s') else "'s")
    raise RunFailed(f'{len(wrong)} texts differ from {possessive} where no tie explains it: '
                    + '; '.join(wrong[:3]))


def measure(target, inputs, batches, methods, repeats: int) -> tuple[str, list[str]]:
  """Times the methods, the first being what the others are compared with.

  Args:
    target: the `Model`.
    inputs, batches: from `jobs.inputs`, batch size 1.
    methods: called as `jobs.methods.Method`.
    repeats: timings of each input.

  Returns:
    A markdown table, with a warning where its times are unreliable, and a line for each text that
    differs from the first method's where the target's two largest logits do not tie.
  """
  timed = time_methods(target, methods, batches, repeats, 'benchmark')
  base = _tokens_per_second(timed[0], batches)
  name = lambda t: f'specdec_jax, {t.method.name}' if isinstance(t.method, Method) else t.method.name
  rows, wrong = [], []
  for t in timed:
    differences = agreement.differences(target, inputs, batches, timed[0].results, t.results)
    not_ties = agreement.not_ties(differences, target.config.dtype)
    wrong += [f'{name(t)}: example {d.id} differs at token {d.position} (margin '
              f'{d.margin:.3g})' for d in not_ties]
    speed = _tokens_per_second(t, batches)
    emitted, calls = t.count('emitted', batches), t.count('target_calls', batches)
    rows.append([
        name(t), emitted, number(speed, 1), number(speed / base, 2, 'X'),
        number(emitted / calls, 2),
        number(acceptance_rate(t.count('accepted', batches), t.count('drafted', batches)), 3),
        f'{len(batches) - len(differences)} of {len(batches)}', number(t.warm_up_seconds, 1)])
  header = ['decoder', 'tokens', 'tokens/s', f'against {name(timed[0])}', 'tokens per call',
            'acceptance rate', 'equal texts', 'warm-up, s']
  reasons = reliability.of_repeats({name(t): t.spread for t in timed})
  return markdown(header, rows) + unreliable('tokens/s', reasons, '--repeats'), wrong


def _tokens_per_second(timed, batches) -> float:
  return timed.count('emitted', batches) / float(timed.seconds.sum())
