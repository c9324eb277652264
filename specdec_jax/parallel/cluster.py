"""How jax finds the processes of a job: on a Cloud TPU slice, under Slurm, Open MPI and the like.

jax has no public name for what it finds. What is used here was seen in jax 0.10.2 and 0.12.0.1, and nothing else in the
project looks into jax's private modules for it; where another jax has changed it, the message says what to set instead.
"""

import jax

from specdec_jax.errors import SettingError

_MEND = 'set Hosts.coordinator_address, Hosts.num_processes and Hosts.process_id'


def find(timeout: int) -> tuple[str, int, int]:
  """Address of process 0, how many processes there are, and which this is.

  Where several processes share a host's GPUs, as under Slurm, each sees its own from now on.

  Args:
    timeout: seconds to wait until the name of process 0's host is known.

  Raises:
    SettingError: jax finds none, or this jax hides how it does.
  """
  try:
    from jax._src import clusters
    detect = clusters.ClusterEnv.auto_detect_unset_distributed_params
    address, count, index, devices = detect(None, None, None, None, None, timeout)
  except (ImportError, AttributeError, TypeError) as e:
    raise SettingError(f'jax {jax.__version__} does not show which processes it finds ({e}); {_MEND}.') from e
  except Exception as e:  # such as a metadata server that does not answer
    raise SettingError(f'jax found no other processes ({" ".join(str(e).split())[:300]}); {_MEND}.') from e
  if address is None or count is None or index is None:
    raise SettingError(f'jax found no other processes: this is no Cloud TPU slice, Slurm or Open MPI job; {_MEND}.')
  for platform in ('cuda', 'rocm') if devices else ():
    jax.config.update(f'jax_{platform}_visible_devices', ','.join(map(str, devices or ())))
  return address, count, index
