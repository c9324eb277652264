"""The drafters run: several drafters for one target, timed in turns over the same inputs."""

from collections.abc import Iterable, Mapping, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs import output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure import experiment
from specdec_jax.measure.alphas import over_texts
from specdec_jax.measure.costs import over_batches
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.reports import drafters as report
from specdec_jax.reports.words import model_name, sampling_name
from specdec_jax.sampling import Sampling


@arguments.checked(
    **settings.OF_INPUTS, drafters=settings.drafters, gammas=arguments.tuple_of(settings.GAMMA),
    samplings=arguments.tuple_of(settings.SAMPLING), seed=settings.SEED, repeats=arguments.at_least(1),
    alpha_tokens=arguments.at_least(1), tie_margin=arguments.optional(arguments.not_negative))
def drafters(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
             drafters: Mapping[str, Drafter | Model] = gin.REQUIRED, gammas: Sequence[int] = (4,),
             samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)), seed: int = 0,
             batch_size: int = 1, repeats: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
             long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = (), alpha_tokens: int = 10_000,
             tie_margin: float | None = None) -> dict:
  """Writes drafters.json and drafters.md into output_dir and prints the table.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    drafters: name -> drafter; all take turns with the target alone, batch by batch.
    gammas, samplings, repeats, alpha_tokens, tie_margin: as in `compare`.

  Returns:
    The report: a row a drafter, sampling and draft length.

  Raises:
    RunFailed: greedy texts differ where the target's two largest logits do not tie; the report is written first.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  named = {name: as_drafter(drafter) for name, drafter in drafters.items()}
  for drafter in named.values():
    drafter.check(target)
  inputs = options.encode(target, examples)
  batches = options.batches(inputs)
  rows = []
  for sampling in samplings:
    name = sampling_name(sampling)
    methods = {(n, gamma): Method(drafter=drafter, gamma=gamma, sampling=sampling, max_decode_len=max_decode_len,
                                  seed=seed) for n, drafter in named.items() for gamma in gammas}
    first = next(iter(methods.values()))
    alone, *timed = time_methods(target, [first.alone, *methods.values()], batches, repeats, name)
    found = dict(zip(methods, timed))
    for n, drafter in named.items():
      alpha = over_texts(target, drafter, batches, alone.results, sampling, alpha_tokens, name=f'{name}, {n}')[1.0]
      with Progress(None, f'{name}, {n}: costs', 'step') as progress:
        costs = over_batches(target, drafter, batches, alone, list(gammas), sampling, max_decode_len, progress)
      for gamma in gammas:
        speculative = found[n, gamma]
        rows.append({
            'drafter': n,
            **experiment.figures(target, batches, ['all'] * len(batches), alone, speculative, None, alpha, costs),
            'outputs': experiment.outputs(target, inputs, batches, alone, speculative, tie_margin)})
  result = {'target': model_name(target), 'drafters': {n: drafter.name for n, drafter in named.items()},
            'examples': len(inputs.rows), 'cut_inputs': inputs.cut, 'batch_size': batch_size, 'repeats': repeats,
            'max_decode_len': max_decode_len, 'device': output.environment()['device'], 'rows': rows}
  output.write_json(output_dir, 'drafters.json', result)
  text = report.markdown(result)
  output.write(output_dir, 'drafters.md', text)
  print(text)
  experiment.check_exact((row['drafter'], row['outputs']) for row in rows)
  return result
