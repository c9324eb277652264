"""The processes of a job on several hosts: who this one is, what they tell each other, how all end.

They talk through the key-value store of jax.distributed's coordinator, process 0, and need no
common disk. Each runs its own programs on its own devices, so none waits for another in a decode.
"""

import contextlib
import dataclasses
import json
import os

import jax

from specdec_jax.errors import HostFailed, SettingError

_CHUNK = 1 << 20  # characters of one message
_FAILED = 'specdec_jax/failed/'


@dataclasses.dataclass(frozen=True, kw_only=True)
class Hosts:
  """How this process finds the others; jax finds all of it on a Cloud TPU, under Slurm and Open MPI.

  Attributes:
    coordinator_address: host:port of process 0; any free port.
    num_processes: how many there are.
    process_id: of this one, from 0.
    timeout: seconds to wait for the others at the start.
  """

  coordinator_address: str | None = None
  num_processes: int | None = None
  process_id: int | None = None
  timeout: int = 300

  def __post_init__(self):
    given = [self.coordinator_address, self.num_processes, self.process_id]
    if None in given and given != [None] * 3:
      raise SettingError('Hosts needs coordinator_address, num_processes and process_id together, or none '
                       'of them where jax finds them itself (Cloud TPU, Slurm, Open MPI).')
    if None not in given and not 0 <= self.process_id < self.num_processes:
      raise SettingError(f'Hosts.process_id is {self.process_id}; of {self.num_processes} processes it must '
                       f'be 0 to {self.num_processes - 1}.')

  def join(self) -> None:
    """Connects to the others; before anything is computed."""
    try:
      jax.distributed.initialize(self.coordinator_address, self.num_processes, self.process_id,
                                 initialization_timeout=self.timeout)
    except ValueError as e:
      raise SettingError(f'The other processes were not found ({e}); set Hosts.coordinator_address, '
                       'Hosts.num_processes and Hosts.process_id.') from None


@contextlib.contextmanager
def joined(hosts: Hosts | None):
  """Joins the other processes, if there are any, and ends with them.

  What fails inside, here or on another host, is raised on every host.

  Args:
    hosts: None is one process, but for a TPU slice whose environment names several hosts.
  """
  if hosts is None and ',' not in os.environ.get('TPU_WORKER_HOSTNAMES', ''):
    yield
    return
  (hosts or Hosts()).join()
  try:
    yield
    gather('end', None)
  except HostFailed:
    raise
  except BaseException as e:
    reason = ' '.join(str(e).split())[:1000] or type(e).__name__
    with contextlib.suppress(jax.errors.JaxRuntimeError):  # the coordinator may be what failed
      _store().key_value_set(_FAILED + str(index()), reason)
    raise


def count() -> int:
  return jax.process_count()


def index() -> int:
  """Of this process, from 0."""
  return jax.process_index()


def check() -> None:
  """Raises HostFailed with its reason where another process failed."""
  if count() > 1:
    for key, reason in _store().key_value_dir_get(_FAILED):
      raise HostFailed(f"process {key.rsplit('/', 1)[1]} failed: {reason}")


def gather(name: str, value) -> list:
  """What every process says under a name, in their order; waits for all of them.

  Args:
    name: used once in a job.
    value: JSON-ready.
  """
  if count() == 1:
    return [value]
  _say(name, value)
  return [_hear(name, i) for i in range(count())]


def bring(name: str, value) -> list | None:
  """As `gather`, to process 0 alone; None at once on the others."""
  if count() == 1:
    return [value]
  if index():
    _say(name, value)
    return None
  return [value] + [_hear(name, i) for i in range(1, count())]


def _store():
  from jax._src import distributed  # jax has no public name for the store
  return distributed.global_state.client


def _say(name, value):
  text, key = json.dumps(value), f'specdec_jax/{name}/{index()}'
  chunks = [text[i:i + _CHUNK] for i in range(0, len(text), _CHUNK)]
  for i, chunk in enumerate(chunks):
    _store().key_value_set(f'{key}/{i}', chunk)
  _store().key_value_set(f'{key}/count', str(len(chunks)))


def _hear(name, sender: int):
  key = f'specdec_jax/{name}/{sender}'
  chunks = [_wait(f'{key}/{i}') for i in range(int(_wait(f'{key}/count')))]
  return json.loads(''.join(chunks))


def _wait(key) -> str:
  while True:
    check()
    try:
      return _store().blocking_key_value_get(key, 500)
    except jax.errors.JaxRuntimeError as e:
      if 'DEADLINE_EXCEEDED' not in str(e):
        raise HostFailed(f'process 0, the coordinator, is gone ({e}).') from None
