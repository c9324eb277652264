"""A decode job over several processes: what is done already, who decodes what, and the merge."""

import glob
import os

from specdec_jax.errors import SettingError
from specdec_jax.jobs import output
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.parallel import hosts

_FOLDER = 'process_'  # of the output directory: what each process but the first writes


def claim(output_dir: str, bindings: dict[str, str]) -> str:
  """Claims output_dir for process 0 and a folder in it for each other one; returns this one's."""
  if hosts.index() == 0:
    output.claim(output_dir, bindings)
  hosts.gather('claimed', None)
  if hosts.index():
    output_dir = os.path.join(output_dir, f'{_FOLDER}{hosts.index()}')
    output.claim(output_dir, bindings)
  return output_dir


def earlier(predictions: Predictions, output_dir: str, digest: str) -> tuple[set[int], set[int]]:
  """Places of the examples that any process has done before, and of those that failed.

  Process 0 takes up what it finds in other processes' folders, so that a job may go on with
  fewer of them where they share a disk.

  Raises:
    ValueError: the processes read different inputs.
  """
  if hosts.index() == 0 and not predictions.complete:
    for folder in sorted(glob.glob(os.path.join(os.path.expanduser(output_dir), f'{_FOLDER}*'))):
      _take(predictions, Predictions(folder, predictions.total).items())
  found = hosts.gather('earlier', {'digest': digest, 'done': sorted(predictions.done),
                                   'failed': sorted(predictions.failed)})
  if any(f['digest'] != digest for f in found):
    raise SettingError('The processes of this job read different inputs; give all of them the same.')
  done = set().union(*(f['done'] for f in found))
  return done, set().union(*(f['failed'] for f in found)) - done


def share(batches: list) -> list:
  """This process's part of the batches: short and long ones alike."""
  return batches[hosts.index()::hosts.count()]


def merge(predictions: Predictions, timing: dict) -> dict | None:
  """Brings all predictions to process 0, and the timings in one; None on the others."""
  found = hosts.bring('predictions', {
      'timing': timing, 'records': list(predictions.items()) if hosts.index() else []})
  if found is None:
    return None
  for other in found[1:]:
    _take(predictions, other['records'])
  timings = [f['timing'] for f in found]
  speeds = [t['tokens_per_second'] for t in timings if t['tokens_per_second']]
  slowest = {name: max(t[name] for t in timings) for name in ('seconds', 'seconds_first_of_shape')}
  return {**slowest, 'tokens_per_second': sum(speeds) if speeds else None}


def _take(predictions, records):
  predictions.add({i: record for i, record in records if i not in predictions.done})
