"""Acceptance by rank over texts that a run has decoded already."""

import math
from collections.abc import Sequence

from specdec_jax.analysis import ranks as ranks_lib
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.texts import by_length
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.sampling import Sampling


def over_texts(target: Model, drafter: Drafter | Model, batches: Sequence[Batch], results: Sequence[Result],
               sampling: Sampling, num_tokens: float = math.inf, most: int = 16, seed: int = 0,
               name: str = '') -> ranks_lib.Ranks:
  """Which candidate was accepted at each place of texts that the target alone generated.

  Args:
    target, drafter, batches, results, sampling, num_tokens, name: as in `alphas.over_texts`.
    most: candidates of a place.
    seed: of the rule's random numbers.
  """
  texts = by_length(batches, results, num_tokens)
  with Progress(sum(int(t.lengths.sum()) for t in texts), f'{name}: ranks'.removeprefix(': '), 'token') as progress:
    return ranks_lib.joined([
        ranks_lib.of_texts(target, drafter, t.tokens, t.emitted, t.lengths, sampling, most=most, seed=seed + i,
                           prompt_lengths=t.prompt_lengths, done=progress.add) for i, t in enumerate(texts)])
