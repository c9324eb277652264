"""A process of a job that does nothing, for ever: python waits.py ADDRESS COUNT INDEX [busy]

`busy` is one instruction without end, as a long device call is.
"""

import hashlib
import sys
import time

from specdec_jax import stopping
from specdec_jax.cli import ends
from specdec_jax.parallel import hosts


def run(address, count, index, busy=''):
  stopping.GRACE = 1.0
  with hosts.joined(hosts.Hosts(coordinator_address=address, num_processes=int(count), process_id=int(index))):
    hosts.gather('start', None)
    print('ready', flush=True)
    with stopping.postponed():
      while busy:
        hashlib.pbkdf2_hmac('sha256', b'', b'', 2 ** 31 - 1)
    while True:
      hosts.check()
      time.sleep(0.05)


if __name__ == '__main__':
  sys.exit(ends.exit_code('waits', lambda: run(*sys.argv[1:])))
