"""A decode job over several processes: what is done already, who decodes what, and the merge."""

import base64
import contextlib
import glob
import itertools
import os
from collections.abc import Iterable, Iterator

import numpy as np

from specdec_jax.errors import InputError
from specdec_jax.jobs import claims, work
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


def earlier(predictions: Predictions, output_dir: str, digests: dict[str, str]) -> tuple[np.ndarray, np.ndarray]:
  """Which examples any process has done before, and which failed: bool [n] each.

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
  found = hosts.gather('earlier', {'digests': digests, 'done': _packed(predictions.done),
                                   'failed': _packed(predictions.failed)})
  for name in digests:
    others = [i for i, f in enumerate(found) if f['digests'][name] != found[0]['digests'][name]]
    if others:
      raise InputError(f'The {name} of process {others[0]} is not that of process 0; give all processes the same.')
  of_any = lambda name: np.any([_unpacked(f[name], len(predictions.ids)) for f in found], axis=0)
  done = of_any('done')
  return done, of_any('failed') & ~done


def share(wanted: np.ndarray) -> np.ndarray:
  """This process's part of the examples that are True in bool [n]: every so manieth of them."""
  mine = np.zeros_like(wanted)
  mine[np.flatnonzero(wanted)[hosts.index()::hosts.count()]] = True
  return mine


def _packed(flags: np.ndarray) -> str:
  return base64.b64encode(np.packbits(flags)).decode()


def _unpacked(text: str, count: int) -> np.ndarray:
  return np.unpackbits(np.frombuffer(base64.b64decode(text), np.uint8), count=count).astype(bool)


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
  return work.combined(timings)


def _take(predictions: Predictions, records: Iterable):
  """Adds records of another process that are not done here; its ids must be this job's."""
  for index, record in records:
    if predictions.ids.is_at(index, record.get('id')) and not predictions.done[index]:
      predictions.add({index: record})
