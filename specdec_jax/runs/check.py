"""The check run: is the text the target's own, and what does a good or bad draft change?"""

from collections.abc import Iterable, Sequence
from typing import Any

import gin

from specdec_jax import arguments
from specdec_jax.analysis import reliability, theory, worked_example
from specdec_jax.data.examples import Example
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.drafters.spoiled import random_weights, shuffled_rows
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure import experiment
from specdec_jax.measure.alphas import over_texts
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.reports import check as report
from specdec_jax.reports.words import model_name
from specdec_jax.results import acceptance_rate
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

P, Q = (0.5, 0.5), (0.9, 0.1)  # the worked example
SAMPLES = 100_000
GREEDY = Sampling(temperature=0.0)


@arguments.checked(**settings.OF_INPUTS, draft=settings.MODEL, gamma=settings.GAMMA,
                   tree=arguments.optional(settings.tree), repeats=arguments.at_least(1))
def check(output_dir: str, target: Model = gin.REQUIRED, draft: Model = gin.REQUIRED,
          examples: Iterable[Example] = gin.REQUIRED, gamma: int = 4, tree: Tree | int | None = None,
          batch_size: int = 1, max_decode_len: int = 48, max_input_len: int = 512, long_inputs: str = 'refuse',
          prefix: str = '', buckets: Sequence[int] = (), repeats: int = 1) -> dict:
  """Decodes greedily with the draft, with the target as its own draft and with two spoiled drafts.

  For each: whether every token is the target's own, alpha (of the distributions alone, no clock in it), and, apart
  from that, tokens per call against eq. 1 and the speed-up. Then the two-token example, by arithmetic
  and by simulation of `verify`. Writes check.json and check.md into output_dir and prints the latter.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    draft: the draft model.
    gamma: draft tokens an iteration.
    tree: beside that, each draft is checked with this tree of candidates too.
    repeats: timings of each batch, of which the median counts.

  Returns:
    The report.

  Raises:
    RunFailed: something is not as it must be; the report, written first, says what.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  ModelDrafter(draft).check(target)
  drafts = {'the draft': draft, 'the target itself': target,
            'random weights': random_weights(draft), 'shuffled rows': shuffled_rows(draft)}
  drafters = {name: ModelDrafter(model) for name, model in drafts.items()}
  common: dict[str, Any] = dict(sampling=GREEDY, max_decode_len=max_decode_len)
  inputs = options.encode(target, examples)
  batches = options.batches(inputs)
  methods = {name: Method(drafter=d, gamma=gamma, **common) for name, d in drafters.items()}
  if tree is not None:
    by_tree = {name: Method(drafter=d, tree=tree, **common) for name, d in drafters.items()}
    methods |= {f'{name}, {m.shape.name}': m for name, m in by_tree.items() if m.shape}
  alone, *speculative = time_methods(target, [Method(**common), *methods.values()], batches, repeats, 'greedy')
  alphas = {name: over_texts(target, drafter, batches, alone.results, GREEDY, 10_000, name=name)[1.0]
            for name, drafter in drafters.items()}
  rows = []
  for (name, method), timed in zip(methods.items(), speculative):
    alpha = alphas[next(draft for draft in drafters if name.startswith(draft))]
    speeds = experiment.speeds(batches, alone, timed)
    counts = {n: timed.count(n, batches) for n in ('target_calls', 'drafted', 'accepted', 'emitted')}
    rows.append({
        'draft': name, 'alpha': alpha.alpha, 'alpha_standard_error': experiment.finite(alpha.standard_error),
        'outputs': experiment.outputs(target, inputs, batches, alone, timed, None), **counts,
        'acceptance_rate': acceptance_rate(counts['accepted'], counts['drafted']),
        'tokens_per_call': speeds['tokens_per_call'], 'speed_up': speeds['speed_up'],
        'expected_tokens_per_call': theory.expected_tokens(alpha.alpha, method.gamma) if method.gamma else None})
  result = {'target': model_name(target), 'examples': len(inputs.rows), 'gamma': gamma,
            'batch_size': batch_size, 'max_decode_len': max_decode_len,
            'device': output.environment()['device'], 'drafts': rows, 'worked_example': example()}
  result['unreliable'] = reliability.of_repeats({'target alone': alone.spread} | {
      name: timed.spread for name, timed in zip(methods, speculative)})
  result['failures'] = report.failures(result)
  output.write_json(output_dir, 'check.json', result)
  text = report.markdown(result)
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
