"""What all jobs over examples share: a line for each, what an earlier start has done, several processes, failures."""

import contextlib
import itertools
from collections.abc import Callable, Iterable
from typing import Protocol

from specdec_jax import stopping
from specdec_jax.data.examples import Example
from specdec_jax.data.ids import Ids
from specdec_jax.errors import InputError, RunFailed
from specdec_jax.files import mirror
from specdec_jax.jobs import sharing, stream
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.predictions import FAILED, Predictions
from specdec_jax.jobs.progress import Progress
from specdec_jax.model import Model
from specdec_jax.notes import note


class Worker(Protocol):
  """What brings examples to lines."""

  def do(self, windows: Iterable[stream.Window | None]) -> None:
    """Adds a line for each example of the windows; see `work.Work`."""

  @property
  def timing(self) -> dict:
    """See `work.Work`."""


def surveyed(examples: Iterable[Example], see: Callable[[Example], None] | None = None,
             ) -> tuple[Iterable[Example], Ids, str]:
  """`stream.survey`, and the examples, which may be gone through again; InputError where there are none."""
  if iter(examples) is examples:  # it can be gone through only once
    examples = list(examples)
  ids, digest = stream.survey(examples, see)
  if not len(ids):
    raise InputError('There are no examples to decode: the input is empty.')
  return examples, ids, digest


def carry_out(output_dir: str, examples: Iterable[Example], ids: Ids, digests: dict[str, str], model: Model,
              options: InputOptions, name: str,
              worker: Callable[[Predictions, Progress], Worker]) -> tuple[Predictions, dict] | None:
  """Brings every example to a line of `output_dir`/predictions.jsonl that has none there yet.

  Args:
    output_dir: claimed by this process.
    examples: which can be gone through several times.
    ids: of them.
    digests: of what all processes must have the same of, by name.
    model, options: encode them.
    name: of the job, on its progress line.
    worker: makes what does the work.

  Returns:
    All predictions and the timings of all processes as one; None but on process 0.
  """
  predictions = Predictions(output_dir, ids)
  done, failed = sharing.earlier(predictions, output_dir, digests)
  if done.any():
    note(f'{done.sum()} of {len(ids)} examples were done before.')
  fresh, again = sharing.share(~(done | failed)), sharing.share(failed)  # what failed before goes last
  read = itertools.chain.from_iterable(
      stream.windows(examples, wanted, model, options) for wanted in (fresh, again) if wanted.any())
  going_on = lambda: (f'{predictions.num_done} examples are in {mirror.shown(predictions.partial_path)}, and the '
                      'same command goes on with the rest')
  with contextlib.closing(predictions), stopping.hint(going_on):
    with Progress(int((fresh | again).sum()), name) as progress, stream.Ahead(read) as windows:
      working = worker(predictions, progress)
      working.do(windows)
    timing = sharing.merge(predictions, working.timing)
    if timing is None:  # process 0 writes the rest
      return None
    predictions.finish()
  return predictions, timing


def check_failed(predictions: Predictions) -> None:
  """RunFailed where examples have failed."""
  if predictions.failed.any():
    raise RunFailed(f'{predictions.failed.sum()} of {len(predictions.ids)} examples failed '
                    f'(status {FAILED} in {mirror.shown(predictions.path)}); run again to retry them.')
