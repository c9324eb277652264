"""The check run: is the text the target's own, and what does a good or bad draft change?"""

from collections.abc import Iterable

import gin
import numpy as np

from specdec_jax.analysis import reliability, theory, worked_example
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.drafters.spoiled import random_weights, shuffled_rows
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import batching, output
from specdec_jax.measure import experiment
from specdec_jax.measure.methods import Method
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.reports.tables import markdown as table, number
from specdec_jax.reports.words import model_name, unreliable
from specdec_jax.results import acceptance_rate
from specdec_jax.runs import alphas
from specdec_jax.sampling import Sampling

P, Q = (0.5, 0.5), (0.9, 0.1)  # the worked example
SAMPLES = 100_000
GREEDY = Sampling(temperature=0.0)


def check(output_dir: str, target: Model = gin.REQUIRED, draft: Model = gin.REQUIRED,
          examples: Iterable = gin.REQUIRED, gamma: int = 4, batch_size: int = 1,
          max_decode_len: int = 48, max_input_len: int = 512, long_inputs: str = 'refuse',
          buckets=(), repeats: int = 1) -> dict:
  """Decodes greedily with the draft, with the target as its own draft and with two spoiled drafts.

  For each: whether every token is the target's own, alpha (of the distributions alone, no clock in it), and, apart
  from that, tokens per call against eq. 1 and the speed-up. Then the two-token example, by arithmetic
  and by simulation of `verify`. Writes check.json and check.md into output_dir and prints the latter.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, batch_size, max_decode_len, max_input_len, long_inputs, buckets: as in `decode`.
    draft: the draft model.
    gamma: draft tokens an iteration.
    repeats: timings of each batch, of which the median counts.

  Returns:
    The report.

  Raises:
    RunFailed: something is not as it must be; the report, written first, says what.
  """
  drafts = {'the draft': draft, 'the target itself': target,
            'random weights': random_weights(draft), 'shuffled rows': shuffled_rows(draft)}
  drafters = {name: ModelDrafter(model) for name, model in drafts.items()}
  drafters['the draft'].check(target)
  common = dict(sampling=GREEDY, max_decode_len=max_decode_len)
  inputs = batching.encode(target, examples, max_input_len, long_inputs)
  batches = batching.batches(inputs, batch_size, max_input_len, buckets=buckets)
  alone, *speculative = time_methods(
      target, [Method(**common)] + [Method(drafter=d, gamma=gamma, **common) for d in drafters.values()],
      batches, repeats, 'greedy')
  rows = []
  for (name, drafter), timed in zip(drafters.items(), speculative):
    alpha = alphas.over_texts(target, drafter, batches, alone.results, GREEDY, 10_000)[1.0]
    speeds = experiment.speeds(batches, alone, timed)
    counts = {n: timed.count(n, batches) for n in ('target_calls', 'drafted', 'accepted', 'emitted')}
    rows.append({
        'draft': name, 'alpha': alpha.alpha, 'alpha_standard_error': experiment.finite(alpha.standard_error),
        'outputs': experiment.outputs(target, inputs, batches, alone, timed, None), **counts,
        'acceptance_rate': acceptance_rate(counts['accepted'], counts['drafted']),
        'tokens_per_call': speeds['tokens_per_call'], 'speed_up': speeds['speed_up'],
        'expected_tokens_per_call': theory.expected_tokens(alpha.alpha, gamma)})
  result = {'target': model_name(target), 'examples': len(inputs.rows), 'gamma': gamma,
            'batch_size': batch_size, 'max_decode_len': max_decode_len,
            'device': output.environment()['device'], 'drafts': rows, 'worked_example': example()}
  result['unreliable'] = reliability.of_repeats({'target alone': alone.spread} | {
      name: timed.spread for name, timed in zip(drafters, speculative)})
  result['failures'] = failures(result)
  output.write_json(output_dir, 'check.json', result)
  text = markdown(result)
  output.write(output_dir, 'check.md', text)
  print(text)
  if result['failures']:
    raise RunFailed('; '.join(result['failures']) + '.')
  return result


def example() -> dict:
  """The two-token example by both ways: JSON-ready."""
  as_dict = lambda o: {'acceptance': o.acceptance, 'accepted': o.accepted.tolist(),
                       'corrected': o.corrected.tolist(), 'distribution': o.distribution.tolist()}
  return {'p': P, 'q': Q, 'samples': SAMPLES, 'arithmetic': as_dict(worked_example.arithmetic(P, Q)),
          'simulation': as_dict(worked_example.simulation(P, Q, SAMPLES))}


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
