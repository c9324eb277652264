"""The output directory: whose it is, and what is saved beside the results."""

import datetime
import importlib.metadata
import json
import os
import platform
import sys

import jax

from specdec_jax.errors import SettingError

PACKAGES = ('jax', 'jaxlib', 'libtpu', 'flax', 'optax', 'orbax-checkpoint', 'numpy', 'gin-config',
            'sentencepiece', 'seqio', 'tensorflow', 't5x')
_RUN = 'run.json'
_RECORDS = {_RUN, 'config.gin', 'environment.json', 'operative_config.gin'}


def claim(directory: str, bindings: dict[str, str]) -> None:
  """Makes `directory` this configuration's own, or goes on in it.

  Args:
    directory: a local path; made where it does not exist.
    bindings: the configuration; OUTPUT_DIR, the hosts and main's own settings do not count.

  Raises:
    ValueError: it holds the results of another configuration, or things of no run.
  """
  if '://' in directory:
    raise SettingError(f"output_dir is '{directory}', but predictions are appended to as they come; "
                     'name a local directory and copy it afterwards (gcloud storage cp -r).')
  directory = os.path.expanduser(directory)
  ours = {k: v for k, v in bindings.items()
          if k != 'OUTPUT_DIR' and not k.startswith(('main.', 'Hosts.'))}
  ours['run'] = bindings.get('main.run', 'None')
  os.makedirs(directory, exist_ok=True)
  found = {f.name for f in os.scandir(directory) if f.is_dir() or f.stat().st_size}
  if _RUN not in found or found <= _RECORDS:  # no results yet: a start that failed keeps no one out
    if not found <= _RECORDS:
      raise SettingError(f"output_dir '{directory}' holds files of something else; "
                       'name a new or empty directory with --output_dir=DIR.')
    write_json(directory, _RUN, {'bindings': ours})
    return
  theirs = read_json(directory, _RUN).get('bindings', {})
  differences = [f'{k} is {theirs.get(k, "not set")} there and {ours.get(k, "not set")} here'
                 for k in sorted({*theirs, *ours}) if theirs.get(k) != ours.get(k)]
  if differences:
    raise SettingError(f"output_dir '{directory}' belongs to another configuration "
                     f'({"; ".join(differences)}); name another one with --output_dir=DIR.')


def claim_examples(directory: str, digest: str) -> None:
  """Ties the directory to its inputs too; ValueError where they have changed since."""
  record = read_json(directory, _RUN)
  if record.setdefault('examples', digest) != digest:
    raise SettingError(f"The inputs have changed since output_dir '{directory}' was begun; "
                     'name another one with --output_dir=DIR.')
  write_json(directory, _RUN, record)


def environment() -> dict:
  """Versions, device and jax settings: JSON-ready."""
  devices = jax.devices()
  return {
      'time': datetime.datetime.now(datetime.UTC).isoformat(timespec='seconds'),
      'command': sys.argv,
      'python': platform.python_version(),
      'platform': platform.platform(),
      'cpus': os.cpu_count(),
      'packages': {p: v for p in ('specdec_jax', *PACKAGES) if (v := _version(p))},
      'device': {'platform': devices[0].platform, 'kind': devices[0].device_kind,
                 'count': len(devices), 'processes': jax.process_count()},
      'jax_config': {k: v for k, v in sorted(jax.config.values.items())
                     if isinstance(v, (str, int, float, bool)) or v is None},
  }


def write(directory: str, name: str, text: str) -> str:
  """Writes a whole file under its name at once; returns its path."""
  path = os.path.join(os.path.expanduser(directory), name)
  with open(path + '.partial', 'w', encoding='utf-8') as f:
    f.write(text)
  os.replace(path + '.partial', path)
  return path


def write_json(directory: str, name: str, value) -> str:
  return write(directory, name, json.dumps(value, indent=1, ensure_ascii=False) + '\n')


def read_json(directory: str, name: str):
  path = os.path.join(os.path.expanduser(directory), name)
  try:
    with open(path, encoding='utf-8') as f:
      return json.load(f)
  except ValueError as e:
    raise SettingError(f"'{path}' is damaged ({e}); name another output_dir.") from None


def _version(package: str) -> str | None:
  if package == 'specdec_jax':
    from specdec_jax import __version__
    return __version__
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    return None
