"""Whether two greedy decodes gave the same texts, and how near a tie was where they did not."""

import dataclasses

import numpy as np

from specdec_jax.analysis.alpha import teacher_forced
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer

# One-token and many-token passes round differently: below these margins (in logits) the
# first two tokens are a tie that either pass may break its own way.
TIE_MARGINS = {'float32': 1e-3, 'bfloat16': 0.25}


@dataclasses.dataclass(frozen=True)
class Difference:
  """Where a speculative text leaves the target's own.

  Attributes:
    id: of the example.
    position: of the first token that differs, from 0.
    margin: between the target's two largest logits there.
  """

  id: str
  position: int
  margin: float


def differences(target, inputs, batches, alone, speculative) -> list[Difference]:
  """Every example whose tokens differ; both are lists of `Result`, one for each batch."""
  found = []
  standardizer = Standardizer.of_target(target, Sampling(temperature=0.0))
  for batch, a, s in zip(batches, alone, speculative):
    for row, index in enumerate(batch.indices):
      unequal = np.flatnonzero(a.tokens[row] != s.tokens[row])
      if len(unequal):
        at = int(unequal[0])
        of_row = lambda x, row=row: None if x is None else x[row:row + 1]
        logits = standardizer.mask(teacher_forced(
            target, of_row(batch.tokens), of_row(a.tokens), of_row(batch.lengths)))
        second, first = np.sort(np.asarray(logits[0, at]))[-2:]
        found.append(Difference(str(inputs.examples[index].id), at, float(first - second)))
  return found


def not_ties(found: list[Difference], dtype: str, tie_margin: float | None = None):
  """Those that no rounding explains."""
  limit = TIE_MARGINS[dtype] if tie_margin is None else tie_margin
  return [d for d in found if not d.margin <= limit]
