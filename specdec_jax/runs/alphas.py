"""The alphas run: alpha of several drafters, samplings and leniences over the target's own texts.

What Table 3 and the upper part of Table 5 report; nothing is timed.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gin
import numpy as np

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.jobs import batching, output
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure import experiment
from specdec_jax.measure.methods import Method
from specdec_jax.model import Model
from specdec_jax.reports import alphas as report
from specdec_jax.reports.words import model_name, sampling_name
from specdec_jax.sampling import Sampling


def alphas(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable = gin.REQUIRED,
           drafters: Mapping[str, Any] = gin.REQUIRED,
           samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)),
           leniences: Sequence[float] = (1.0,), num_tokens: int = 10_000, seed: int = 0,
           batch_size: int = 8, max_decode_len: int = 128, max_input_len: int = 512,
           long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = ()) -> dict:
  """Writes alphas.json and alphas.md into output_dir and prints the table.

  The target decodes the examples, in a random order, until it has generated num_tokens
  tokens at each sampling; every drafter is measured on the same texts.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, batch_size, max_decode_len, max_input_len, long_inputs,
      prefix, buckets: as in `decode`.
    drafters: name -> drafter.
    samplings: temperature, top-k and top-p settings.
    leniences: alpha with lenience is E[sum_x min(p / l, q)] [app. A.5].
    num_tokens: as the paper's 10,000 [§4.2]; fewer where the examples don't yield them.

  Returns:
    The report.
  """
  inputs = batching.encode(target, examples, max_input_len, long_inputs, prefix)
  for drafter in drafters.values():
    drafter.check(target)
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
        for batch in batching.batches(inputs, batch_size, max_input_len, group, buckets):
          result = method(target, batch)
          emitted = int(result.lengths[:len(batch.indices)].sum())
          batches, results, tokens = [*batches, batch], [*results, result], tokens + emitted
          progress.add(emitted, emitted)
    for name, drafter in drafters.items():
      found = over_texts(target, drafter, batches, results, sampling, num_tokens, leniences)
      for lenience, alpha in found.items():
        measured.append({
            'drafter': name, 'sampling': dataclasses.asdict(sampling), 'lenience': lenience,
            'alpha': alpha.alpha, 'standard_error': experiment.finite(alpha.standard_error),
            'tokens': alpha.num_tokens})
  result = {'target': model_name(target), 'examples': len(inputs.rows),
            'drafters': {name: d.name for name, d in drafters.items()},
            'device': output.environment()['device'], 'alphas': measured}
  output.write_json(output_dir, 'alphas.json', result)
  text = report.markdown(result)
  output.write(output_dir, 'alphas.md', text)
  print(text)
  return result


def over_texts(target, drafter, batches, results, sampling: Sampling, num_tokens: int,
               leniences: Sequence[float] = (1.0,)) -> dict[float, alpha_lib.Alpha]:
  """Cor. 3.6 over texts that the target alone generated, taken in a random order.

  Args:
    batches, results: what was decoded and the target's `Result` for each.
    num_tokens: enough; the last text is not cut to fit.
    leniences: all from one run of the models over each text.

  Returns:
    An estimate for each lenience.
  """
  rows = [(b, row) for b, batch in enumerate(batches) for row in range(len(batch.indices))]
  of_bucket, total = {}, 0
  for place in np.random.default_rng(0).permutation(len(rows)):
    b, row = rows[place]
    result = results[b]
    of_bucket.setdefault(batches[b].tokens.shape[1], []).append(
        (batches[b].tokens[row], result.tokens[row], result.lengths[row],
         0 if batches[b].lengths is None else batches[b].lengths[row]))
    total += int(result.lengths[row])
    if total >= num_tokens:
      break
  sums, counts = [[] for _ in leniences], []
  for texts in of_bucket.values():
    tokens, emitted, lengths, of_prompts = map(np.stack, zip(*texts))
    betas = alpha_lib.text_betas(
        target, drafter, tokens, emitted, lengths, sampling,
        prompt_lengths=of_prompts if target.config.decoder_only else None, lenience=leniences)
    for kept, new in zip(sums, betas):
      kept += new.tolist()
    counts += lengths.tolist()
  return {lenience: alpha_lib.estimate(of_texts, counts) for lenience, of_texts in zip(leniences, sums)}
