"""Texts that a run has decoded already, as the analysis takes them."""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Int32

from specdec_jax.jobs.batching import Batch
from specdec_jax.results import Result


@dataclasses.dataclass(frozen=True)
class Texts:
  """Some texts whose inputs were padded to one length.

  Attributes:
    tokens: encoder tokens or prompts.
    emitted: what was generated.
    lengths: of that, EOS counted.
    prompt_lengths: of a decoder-only model's prompts; None of encoder inputs.
  """

  tokens: Int32[np.ndarray, 'N S']
  emitted: Int32[np.ndarray, 'N L']
  lengths: Int32[np.ndarray, ' N']
  prompt_lengths: Int32[np.ndarray, ' N'] | None


def by_length(batches: Sequence[Batch], results: Sequence[Result], num_tokens: float = math.inf) -> list[Texts]:
  """Texts in a random order until they have so many tokens, the last one whole: a `Texts` for each input length."""
  rows = [(b, row) for b, batch in enumerate(batches) for row in range(len(batch.indices))]
  chosen: dict[int, list[tuple[int, int]]] = {}
  total = 0
  for place in np.random.default_rng(0).permutation(len(rows)):
    b, row = rows[place]
    chosen.setdefault(batches[b].tokens.shape[1], []).append((b, row))
    total += int(results[b].lengths[row])
    if total >= num_tokens:
      break
  prompts = lambda of_length: [batches[b].lengths[row] for b, row in of_length if batches[b].lengths is not None]
  return [Texts(tokens=np.stack([batches[b].tokens[row] for b, row in of_length]),
                emitted=np.stack([results[b].tokens[row] for b, row in of_length]),
                lengths=np.stack([results[b].lengths[row] for b, row in of_length]),
                prompt_lengths=np.stack(prompts(of_length)) if prompts(of_length) else None)
          for of_length in chosen.values()]
