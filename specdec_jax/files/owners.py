"""Which process this is, in words by which another one can see later whether it still runs."""

import contextlib
import dataclasses
import datetime
import os
import secrets
import socket
import sys


@dataclasses.dataclass(frozen=True)
class Owner:
  """A process that holds a lock.

  Attributes:
    host, pid, command: of the process.
    since: when it took the lock, in UTC.
    boot: of the operating system, a name of its own at each start; '' where it is not known.
    processes: the table of processes that the pid is from; containers have their own.
    started: when the process started, in ticks since the boot: a pid is given away again, the two together are not.
    flock: whether the disk knows flock, so that a file that nobody holds is a dead owner's.
    token: of this lock alone.
  """

  host: str
  pid: int
  command: str
  since: str
  boot: str
  processes: str
  started: str
  flock: bool
  token: str

  def __str__(self):
    return f'process {self.pid} on {self.host} ({self.command}), since {self.since}'

  def on_this_machine(self) -> bool:
    """Whether it ran since this machine's last start."""
    return self.boot == _boot() != ''

  def visible(self) -> bool:
    """Whether its pid means something here: containers of one machine have tables of processes of their own."""
    return self.on_this_machine() and self.processes == _processes()

  def alive(self) -> bool:
    """Whether a visible one still runs."""
    return _started(self.pid) == self.started


def this_process(flock: bool) -> Owner:
  """The owner that this process is of a new lock."""
  now = datetime.datetime.now(datetime.UTC)
  return Owner(host=socket.gethostname(), pid=os.getpid(), command=' '.join(sys.argv)[:200] or 'Python',
               since=now.isoformat(sep=' ', timespec='seconds'), boot=_boot(), processes=_processes(),
               started=_started(os.getpid()), flock=flock, token=secrets.token_hex(8))


def _boot() -> str:
  """A name of this start of the operating system; '' where that is not known."""
  with contextlib.suppress(OSError), open('/proc/sys/kernel/random/boot_id', encoding='ascii') as f:
    return f.read().strip()
  return ''


def _processes() -> str:
  with contextlib.suppress(OSError):
    return os.readlink('/proc/self/ns/pid')
  return ''


def _started(pid: int) -> str:
  """When a process started, in ticks since the boot; '' where there is none of this pid."""
  try:
    with open(f'/proc/{pid}/stat', encoding='utf-8', errors='replace') as f:
      fields = f.read().rpartition(')')[2].split()  # what stands before is its name, with whatever in it
  except OSError:
    return ''
  return '' if fields[0] == 'Z' else fields[19]  # a zombie is no more
