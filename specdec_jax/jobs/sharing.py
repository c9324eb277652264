"""A decode job over several processes: what is done already, who decodes what, and the merge."""

import contextlib
import glob
import itertools
import os
from collections.abc import Iterable, Iterator

from specdec_jax.errors import InputError
from specdec_jax.jobs import claims
from specdec_jax.jobs.predictions import Predictions, read_partial
from specdec_jax.parallel import hosts

_RECORDS_AT_ONCE = 256  # in a message


@contextlib.contextmanager
def claimed(output_dir: str, bindings: dict[str, str]) -> Iterator[str]:
  """As `claims.claimed`: output_dir for process 0, and a folder in it for each other one; yields this one's."""
  with contextlib.ExitStack() as held:
    if hosts.index() == 0:
      output_dir = held.enter_context(claims.claimed(output_dir, bindings))
    hosts.gather('claimed', None)
    if hosts.index():
      output_dir = held.enter_context(
          claims.claimed(os.path.join(output_dir, f'{claims.PROCESS}{hosts.index()}'), bindings))
    yield output_dir


def earlier(predictions: Predictions, output_dir: str, digests: dict[str, str]) -> tuple[set[int], set[int]]:
  """Places of the examples that any process has done before, and of those that failed.

  Process 0 takes up what it finds in other processes' folders, so that a job may go on with
  fewer of them where they share a disk.

  Args:
    predictions: of this process.
    output_dir: of this process.
    digests: of what all processes must have the same of, by name.

  Raises:
    InputError: they don't.
  """
  if hosts.index() == 0 and not predictions.complete:
    for folder in sorted(glob.glob(os.path.join(glob.escape(output_dir), f'{claims.PROCESS}*'))):
      _take(predictions, read_partial(folder))
  found = hosts.gather('earlier', {'digests': digests, 'done': sorted(predictions.done),
                                   'failed': sorted(predictions.failed)})
  for name in digests:
    others = [i for i, f in enumerate(found) if f['digests'][name] != found[0]['digests'][name]]
    if others:
      raise InputError(f'The {name} of process {others[0]} is not that of process 0; give all processes the same.')
  done = set().union(*(f['done'] for f in found))
  return done, set().union(*(f['failed'] for f in found)) - done


def share(batches: list) -> list:
  """This process's part of the batches: short and long ones alike."""
  return batches[hosts.index()::hosts.count()]


def merge(predictions: Predictions, timing: dict) -> dict | None:
  """Brings all predictions to process 0, and the timings in one; None on the others."""
  timings = hosts.gather('timing', timing)
  items = predictions.items()
  messages = iter(lambda: list(itertools.islice(items, _RECORDS_AT_ONCE)), [])
  brought = hosts.bring('predictions', messages)
  if brought is None:
    return None
  for records in brought:
    _take(predictions, records)
  speeds = [t['tokens_per_second'] for t in timings if t['tokens_per_second']]
  slowest = {name: max(t[name] for t in timings) for name in ('seconds', 'seconds_first_of_shape')}
  return {**slowest, 'tokens_per_second': sum(speeds) if speeds else None}


def _take(predictions: Predictions, records: Iterable):
  """Adds records of another process that are not done here; its ids must be this job's."""
  done = predictions.done
  for index, record in records:
    if index in range(len(predictions.ids)) and index not in done and record.get('id') == predictions.ids[index]:
      predictions.add({index: record})
