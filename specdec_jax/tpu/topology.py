"""The devices of a TPU that is not there, for the compiler that libtpu carries."""

import importlib.util
import os

import jax
import numpy as np

from specdec_jax.errors import DependencyError, SettingError
from specdec_jax.tpu.chips import Chip, extent

# Without these libtpu asks a metadata server what machine it is on, and a second process that
# compiles at the same time dies on a lock file.
_ENVIRONMENT = {'TPU_SKIP_MDS_QUERY': '1', 'ALLOW_MULTIPLE_LIBTPU_LOAD': '1',
                'TPU_WORKER_HOSTNAMES': 'localhost', 'TPU_ACCELERATOR_TYPE': 'v4-8',
                'TPU_STDERR_LOG_LEVEL': '3', 'TPU_MIN_LOG_LEVEL': '3'}


def has_compiler() -> bool:
  return importlib.util.find_spec('libtpu') is not None


def describe(chip: Chip, topology: str) -> np.ndarray:
  """The jax devices of `topology` (such as '1x1x1' or '2x2x2'), to compile for, not to run on.

  Raises:
    DependencyError: libtpu is not installed.
    SettingError: the chip has no such slice.
  """
  if not has_compiler():
    raise DependencyError("The TPU compiler is in the package libtpu (Linux on x86-64): pip install "
                      'libtpu==0.0.52')
  for name, value in _ENVIRONMENT.items():
    os.environ.setdefault(name, value)
  from jax.experimental import topologies
  size = extent(topology)
  unknown = SettingError(f"{chip.name} has no slice '{topology}'; it has {', '.join(chip.slices)} and larger "
                       'ones.')
  if size[2] > 1 and len(chip.slices[0].split('x')) == 2:
    raise unknown
  try:
    found = topologies.get_topology_desc(
        platform='tpu', topology_name=f'{chip.name}:' + 'x'.join(map(str, size)),
        chip_config_name='megacore' if chip.megacore else 'default',
        chips_per_host_bounds=tuple(map(min, size, chip.host)))
  except jax.errors.JaxRuntimeError:
    raise unknown from None
  return np.array(found.devices)
