"""Alpha over texts that a run has decoded already."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling


def over_texts(target: Model, drafter: Drafter | Model, batches: Sequence[Batch], results: Sequence[Result],
               sampling: Sampling, num_tokens: int, leniences: Sequence[float] = (1.0,),
               name: str = '') -> dict[float, alpha_lib.Alpha]:
  """Cor. 3.6 over texts that the target alone generated, taken in a random order.

  Args:
    batches, results: what was decoded and the target's `Result` for each.
    num_tokens: enough; the last text is not cut to fit.
    leniences: all from one run of the models over each text.
    name: stands in front on the progress line.

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
  with Progress(total, f'{name}: alpha'.removeprefix(': '), 'token') as progress:
    for texts in of_bucket.values():
      tokens, emitted, lengths, of_prompts = map(np.stack, zip(*texts))
      betas = alpha_lib.text_betas(
          target, drafter, tokens, emitted, lengths, sampling, lenience=leniences,
          prompt_lengths=of_prompts if target.config.decoder_only else None, done=progress.add)
      for kept, new in zip(sums, betas):
        kept += new.tolist()
      counts += lengths.tolist()
  return {lenience: alpha_lib.estimate(of_texts, counts) for lenience, of_texts in zip(leniences, sums)}
