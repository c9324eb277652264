"""The alphas run: alpha of several drafters, samplings and leniences over the target's own texts.

What Table 3 and the upper part of Table 5 report; nothing is timed.
"""

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import gin
import numpy as np

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
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.reports import alphas as report
from specdec_jax.reports.words import model_name, sampling_name
from specdec_jax.sampling import Sampling


@arguments.checked(
    **settings.OF_INPUTS, drafters=settings.drafters, samplings=arguments.tuple_of(settings.SAMPLING),
    leniences=arguments.tuple_of(settings.LENIENCE), num_tokens=arguments.at_least(1), seed=settings.SEED)
def alphas(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
           drafters: Mapping[str, Drafter | Model] = gin.REQUIRED,
           samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)),
           leniences: Sequence[float] = (1.0,), num_tokens: int = 10_000, seed: int = 0,
           batch_size: int = 8, max_decode_len: int = 128, max_input_len: int = 512,
           long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = ()) -> dict:
  """Writes alphas.json and alphas.md into output_dir and prints the table.

  The target decodes the examples, in a random order, until it has generated num_tokens
  tokens at each sampling; every drafter is measured on the same texts.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    drafters: name -> drafter.
    samplings: temperature, top-k and top-p settings.
    leniences: alpha with lenience is E[sum_x min(p / l, q)] [app. A.5].
    num_tokens: as the paper's 10,000 [§4.2]; fewer where the examples don't yield them.

  Returns:
    The report.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  drafters = {name: as_drafter(drafter) for name, drafter in drafters.items()}
  for drafter in drafters.values():
    drafter.check(target)
  inputs = options.encode(target, examples)
  order = np.random.default_rng(0).permutation(len(inputs.rows))
  groups = [order[i:i + 16 * batch_size] for i in range(0, len(order), 16 * batch_size)]
  measured = []
  for sampling in samplings:
    method = Method(sampling=sampling, max_decode_len=max_decode_len, seed=seed)
    batches, results, tokens = [], [], 0
    with Progress(num_tokens, sampling_name(sampling), 'token') as progress:
      for group in groups:
        if tokens >= num_tokens:
          break
        for batch in options.batches(inputs, group):
          new = all(batch.tokens.shape != b.tokens.shape for b in batches)
          with progress.compiling() if new else contextlib.nullcontext():
            result = method(target, batch)
          emitted = int(result.lengths[:len(batch.indices)].sum())
          batches, results, tokens = [*batches, batch], [*results, result], tokens + emitted
          progress.add(emitted, 0 if new else emitted)
    if tokens < num_tokens:
      note(f'the texts of all {len(inputs.rows)} inputs are {tokens} tokens, fewer than num_tokens = {num_tokens}.')
    for name, drafter in drafters.items():
      found = over_texts(target, drafter, batches, results, sampling, num_tokens, leniences, name)
      for lenience, alpha in found.items():
        measured.append({
            'drafter': name, 'sampling': dataclasses.asdict(sampling), 'lenience': lenience,
            'alpha': alpha.alpha, 'standard_error': experiment.finite(alpha.standard_error),
            'tokens': alpha.num_tokens})
  written = {'target': model_name(target), 'examples': len(inputs.rows),
             'drafters': {name: d.name for name, d in drafters.items()},
             'device': output.environment()['device'], 'alphas': measured}
  output.write_json(output_dir, 'alphas.json', written)
  text = report.markdown(written)
  output.write(output_dir, 'alphas.md', text)
  print(text)
  return written
