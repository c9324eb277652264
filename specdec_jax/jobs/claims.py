"""Whose an output directory is: one job's at a time, of one configuration, with its inputs and its weights."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from specdec_jax import stopping
from specdec_jax.errors import OutputError
from specdec_jax.files import locks, mirror, writing
from specdec_jax.files.locations import absolute, is_remote
from specdec_jax.files.reading import size_of
from specdec_jax.jobs import output
from specdec_jax.jobs.predictions import PARTIAL_NAME
from specdec_jax.paths import resolve

PROCESS = 'process_'  # what the folders of all processes but the first begin with, in the job's directory
_RUN = 'run.json'
_LOCAL_RUNS = ('@train', '@fit_ngram', '@fit_vocabulary')
_RECORDS = {_RUN, 'config.gin', 'environment.json', 'operative_config.gin'}


@contextlib.contextmanager
def claimed(directory: str, bindings: dict[str, str]) -> Iterator[str]:
  """Holds a directory for this process and ties it to a configuration, before anything else is written there.

  Where the hold is lost, the process stops.

  Args:
    directory: a local path, '~' allowed, made where it does not exist; or the address of one on an object store.
    bindings: the configuration, see `tie_configuration`.

  Yields:
    The path; for an address that of a local folder, which is copied there as it grows, see `files.mirror`.

  Raises:
    OutputError: another process is at work there (who, and since when), or it holds the results of another
      configuration or things of no run, or it cannot be written.
  """
  directory = resolve(directory, 'output_dir')
  if is_remote(directory):
    if bindings.get('main.run') in _LOCAL_RUNS:
      raise OutputError(f"output_dir is '{directory}', but what this run writes is read again as it is; name a local "
                        'directory and copy it afterwards (gcloud storage cp -r).')
    with (mirror.mirrored(absolute(directory), {PARTIAL_NAME}, PROCESS, stopping.stop) as (local, release),
          stopping.before_exit(release)):
      tie_configuration(local, bindings)
      yield local
    return
  with writing.named(directory):
    os.makedirs(directory, exist_ok=True)
  held = locks.held(directory, stopping.stop)
  with held as lock, stopping.before_exit(lock.release):
    tie_configuration(directory, bindings)
    yield directory


def tie_configuration(directory: str, bindings: dict[str, str]) -> None:
  """Makes a directory this configuration's own, or goes on in it.

  Args:
    directory: whose lock this process holds.
    bindings: the configuration; OUTPUT_DIR, the hosts and main's own settings do not count.

  Raises:
    OutputError: it holds the results of another configuration, or things of no run.
  """
  ours = {k: v for k, v in bindings.items()
          if k != 'OUTPUT_DIR' and not k.startswith(('main.', 'Hosts.'))}
  ours['run'] = bindings.get('main.run', 'None')
  with writing.named(directory):
    results = _results(directory)
  if not results:  # a start that failed keeps no one out
    output.write_json(directory, _RUN, {'bindings': ours})
    return
  if not os.path.exists(os.path.join(directory, _RUN)):
    raise OutputError(f"output_dir '{directory}' holds files of something else ({results[0]}); "
                      'name a new or empty directory with --output_dir=DIR.')
  theirs = output.read_json(directory, _RUN).get('bindings', {})
  differences = [f'{k} is {theirs.get(k, "not set")} there and {ours.get(k, "not set")} here'
                 for k in sorted({*theirs, *ours}) if theirs.get(k) != ours.get(k)]
  if differences:
    raise OutputError(f"output_dir '{directory}' belongs to another configuration "
                      f'({"; ".join(differences)}); name another one with --output_dir=DIR.')


def _results(directory: str) -> list[str]:
  """What lies there beside the records of a start: names, sorted. OutputError for a pipe or device among it."""
  found = []
  for entry in os.scandir(directory):
    if entry.name.startswith(locks.NAME):
      continue
    if not entry.is_dir():
      size_of(entry.path, error=OutputError)
    if entry.name in _RECORDS or entry.name.endswith(writing.PARTIAL):
      continue
    if entry.is_dir() and entry.name.startswith(PROCESS):
      found += [f'{entry.name}/{name}' for name in _results(entry.path)]
    elif entry.is_dir() or entry.stat().st_size:
      found.append(entry.name)
  return sorted(found)


def kept(directory: str, name: str) -> Any:
  """What `keep` has put down; None where nothing was, and in a directory that had no results when it was claimed."""
  return output.read_json(directory, _RUN).get(name)


def keep(directory: str, name: str, value: Any) -> None:
  """Puts a JSON-ready value down for the restarts of a job, in the record of its directory.

  Args:
    directory: claimed.
    name: of the value.
  """
  output.write_json(directory, _RUN, {**output.read_json(directory, _RUN), name: value})


def tie_contents(directory: str, digests: dict[str, str]) -> None:
  """Ties a directory to what a configuration only names: inputs, weights.

  Args:
    directory: claimed.
    digests: by name, such as {'inputs': ..., "target's weights": ...}.

  Raises:
    OutputError: one has changed since the directory was begun.
  """
  record = output.read_json(directory, _RUN)
  before = record.setdefault('digests', {})
  changed = [name for name, digest in digests.items() if before.setdefault(name, digest) != digest]
  if changed:
    have = 'have' if len(changed) > 1 or changed[0].endswith('s') else 'has'
    raise OutputError(f"The {' and the '.join(changed)} {have} changed since output_dir '{directory}' was begun; "
                      'restore them, or name another directory with --output_dir=DIR.')
  output.write_json(directory, _RUN, record)
