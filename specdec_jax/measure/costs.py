"""c and the verify cost on the inputs of a run."""

from collections.abc import Sequence

from specdec_jax.analysis import cost as cost_lib
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs.batching import Batch, middling
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure.timing import Timed
from specdec_jax.model import Model
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


def over_batches(target: Model, drafter: Drafter | Model, batches: Sequence[Batch], alone: Timed,
                 shapes: Sequence[int | Tree], sampling: Sampling, max_decode_len: int,
                 progress: Progress) -> dict[int | Tree, cost_lib.Cost]:
  """Timed on a batch of middling length, in the middle of a text of mean length; {} without a shape.

  Args:
    alone: the target's own decode of the batches.
    target, drafter, shapes, sampling, max_decode_len: as in `analysis.cost.measure`.
    progress: is told what is timed next.
  """
  if not shapes:
    return {}
  rows = sum(len(b.indices) for b in batches)
  position = min(alone.count('emitted', batches) // rows // 2, max_decode_len - 1)
  return cost_lib.measure(target, drafter, middling(batches).tokens, shapes, sampling,
                          max_decode_len=max_decode_len, position=position, tell=progress.next)
