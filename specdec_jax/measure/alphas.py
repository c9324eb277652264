"""Alpha over texts that a run has decoded already."""

from collections.abc import Sequence

import numpy as np

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.texts import by_length
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
  texts = by_length(batches, results, num_tokens)
  sums: list[list[float]] = [[] for _ in leniences]
  with Progress(sum(int(t.lengths.sum()) for t in texts), f'{name}: alpha'.removeprefix(': '), 'token') as progress:
    for t in texts:
      betas = alpha_lib.text_betas(target, drafter, t.tokens, t.emitted, t.lengths, sampling, lenience=leniences,
                                   prompt_lengths=t.prompt_lengths, done=progress.add)
      for kept, new in zip(sums, betas):
        kept += new.tolist()
  counts = np.concatenate([t.lengths for t in texts])
  return {lenience: alpha_lib.estimate(of_texts, counts) for lenience, of_texts in zip(leniences, sums)}
