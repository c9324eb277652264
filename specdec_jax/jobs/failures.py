"""What fails of a process's work: a line for each example, and an end where nothing works or too much fails."""

from collections.abc import Iterable

from specdec_jax.errors import UserError
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.jobs.stream import Item
from specdec_jax.notes import note

MAX_FAILED = 10  # examples, or calls of the decoder


class Failures:
  """Of one process.

  Attributes:
    anything_done: whether any example has come to a line of its own by now.
  """

  def __init__(self, predictions: Predictions, progress: Progress):
    self._predictions, self._progress = predictions, progress
    self._count = 0
    self.anything_done = False

  def record(self, item: Item, error: Exception | str) -> None:
    """The line of an example that failed; it is said too."""
    reason = ' '.join(str(error).split())[:500] or type(error).__name__
    example = item.window.inputs.examples[item.place]
    note(f'example {example.id!r} failed: {reason}')
    self._predictions.add({item.window.indices[item.place]: {'id': example.id, 'status': FAILED, 'error': reason}})
    self._progress.add(1)

  def count(self, error: Exception, items: Iterable[Item]) -> None:
    """Records one failure of these examples; raises it where it is the last that is borne."""
    self._count += 1
    for item in items:
      self.record(item, error)
    if self._count >= MAX_FAILED:
      raise error

  def end(self, error: Exception) -> None:
    """Raises what failed last where nothing was done before."""
    if not self.anything_done:
      raise error

  def end_by_setting(self, error: Exception) -> None:
    """Raises what failed first where it is a setting that nothing can run with."""
    if isinstance(error, UserError):
      self.end(error)
