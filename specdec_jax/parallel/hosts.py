"""The processes of a job on several hosts: who this one is, what they tell each other, how all end.

They talk through process 0 and need no common disk. Each runs its own programs on its own devices, so none waits for
another in a decode, and jax knows nothing of the others.
"""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Iterator
from typing import Any

from specdec_jax import checks, stopping
from specdec_jax.errors import SettingError
from specdec_jax.parallel import meeting
from specdec_jax.parallel.link import Link

_link: Link | None = None  # None in a job of one process


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
    checks.whole('Hosts.timeout', self.timeout, 1)
    given = [self.coordinator_address, self.num_processes, self.process_id]
    if None in given and given != [None] * 3:
      raise SettingError('Hosts needs coordinator_address, num_processes and process_id together, or none '
                         'of them where jax finds them itself (Cloud TPU, Slurm, Open MPI).')
    if None not in given:
      meeting.split(checks.text('Hosts.coordinator_address', self.coordinator_address))
      count = checks.whole('Hosts.num_processes', self.num_processes, 1)
      checks.whole('Hosts.process_id', self.process_id, 0, count - 1, f' (Hosts.num_processes is {count})')


@contextlib.contextmanager
def joined(hosts: Hosts | None) -> Iterator[None]:
  """Joins the other processes, if there are any, and ends with them.

  Where one fails, is stopped or is gone, all others stop with its reason, see `stopping`.

  Args:
    hosts: None is one process, but for a TPU slice whose environment names several hosts.
  """
  global _link
  if hosts is None and ',' not in os.environ.get('TPU_WORKER_HOSTNAMES', ''):
    yield
    return
  hosts = hosts or Hosts()
  address, number, this = hosts.coordinator_address, hosts.num_processes, hosts.process_id
  if address is None or number is None or this is None:
    from specdec_jax.parallel import cluster  # which imports jax
    address, number, this = cluster.find(hosts.timeout)
  link = Link(this, number, meeting.meet(address, number, this, hosts.timeout),
              stopping.stop)
  _link = link
  try:
    with stopping.told(lambda reason: link.end(f'process {this} was {reason}')):
      yield
      gather('end', None)
  except BaseException as e:
    if link.failure is None:  # else the others know the reason
      link.end(f'process {this} {_ending(e)}')
    raise
  finally:
    _link = None
    link.close()


def _ending(error: BaseException) -> str:
  if isinstance(error, stopping.Stopped) and error.code > 128:
    return f'was {error.reason}'
  return 'failed: ' + (' '.join(str(error).split())[:1000] or type(error).__name__)


def count() -> int:
  return 1 if _link is None else _link.count


def index() -> int:
  """Of this process, from 0."""
  return 0 if _link is None else _link.index


def check() -> None:
  """Raises HostFailed with its reason where another process failed."""
  if _link is not None:
    _link.check()


def gather(name: str, value: Any) -> list:
  """What every process sends under a name, in their order; waits for all of them.

  Args:
    name: the same in all.
    value: JSON-ready.
  """
  if _link is None:
    return [value]
  if _link.index:
    _link.send(name, value)
    return _link.hear(name, 0)
  values = [value] + [_link.hear(name, i) for i in range(1, _link.count)]
  _link.send(name, values)
  return values


def bring(name: str, values: Iterable) -> Iterator[Any] | None:
  """The values of all other processes, one by one, to process 0; None, once all are sent, on the others.

  Args:
    name: the same in all.
    values: JSON-ready; of process 0 they are not asked for.
  """
  if _link is None:
    return iter(())
  if _link.index == 0:
    return _brought(_link, name)
  for value in values:
    _link.send(name, [value])
  _link.send(name, [])
  return None


def _brought(link: Link, name: str) -> Iterator[Any]:
  for sender in range(1, link.count):
    while value := link.hear(name, sender):
      yield value[0]
