"""What is saved in an output directory beside the results: whole files, and what they came from."""

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Iterable

import jax

from specdec_jax.errors import OutputError
from specdec_jax.files import writing
from specdec_jax.parallel import hosts

PACKAGES = ('jax', 'jaxlib', 'libtpu', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'gin-config',
            'sentencepiece', 'seqio', 'tensorflow', 't5x')


def environment() -> dict:
  """Versions, device and jax settings: JSON-ready."""
  devices = jax.local_devices()
  return {
      'time': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
      'command': sys.argv,
      'python': platform.python_version(),
      'platform': platform.platform(),
      'cpus': os.cpu_count(),
      'packages': versions(('specdec_jax', *PACKAGES)),
      'device': {'platform': devices[0].platform, 'kind': devices[0].device_kind,
                 'count': len(devices), 'processes': hosts.count()},
      'jax_config': {k: v for k, v in sorted(jax.config.values.items())
                     if isinstance(v, (str, int, float, bool)) or v is None},
  }


def versions(packages: Iterable[str]) -> dict[str, str]:
  """Of those of the packages that are installed."""
  return {p: v for p in packages if (v := _version(p))}


def write(directory: str, name: str, text: str) -> str:
  """Writes a whole file under its name at once; returns its path. OutputError where the disk refuses."""
  path = os.path.join(directory, name)
  writing.write_text(path, text)
  return path


def write_json(directory: str, name: str, value) -> str:
  """As `write`, of a JSON-ready value."""
  return write(directory, name, json.dumps(value, indent=1, ensure_ascii=False) + '\n')


def read_json(directory: str, name: str) -> dict:
  """The object in a JSON file; OutputError where that is damaged or cannot be read."""
  path = os.path.join(directory, name)
  try:
    with open(path, encoding='utf-8') as f:
      found = json.load(f)
    if not isinstance(found, dict):
      raise ValueError('not a JSON object')
    return found
  except (ValueError, RecursionError, OSError) as e:
    reason = 'it is empty' if not isinstance(e, OSError) and not os.path.getsize(path) else str(e)
    raise OutputError(f"'{path}' is damaged ({reason}). It says whose the results beside it are: restore it, or name "
                      'another directory with --output_dir=DIR.') from e


def _version(package: str) -> str | None:
  if package == 'specdec_jax':
    from specdec_jax import __version__
    return __version__
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None
