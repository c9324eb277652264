"""Imports a generated T5X checkpoint under a limit on memory, and prints what it took.

  python scripts/check_import_memory.py --directory=/some/disk

Writes a checkpoint of T5-XXL's widths with few layers (random float32, as large
as asked), imports it in a process whose private writable memory (RLIMIT_DATA) is
limited, reads the model directory back, compares every leaf, and removes all.
Needs about 1.6 times --gigabytes of disk and, on 2 cores, some minutes.
"""

import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))  # works in a clone, too

import numpy as np
import tensorstore as ts
from absl import app, flags
from flax import serialization, traverse_util

from specdec_jax.checkpoints import storage
from specdec_jax.models.config import T5Config
from specdec_jax.models.parameters import parameter_shapes

_DIRECTORY = flags.DEFINE_string('directory', None, 'Where to write; default: temporary.')
_GIGABYTES = flags.DEFINE_float('gigabytes', 6.0, 'Least size of the weights in float32.')
_LIMIT = flags.DEFINE_float('limit', 3.0, 'Limit in GB on the private memory of the import.')
_DTYPE = flags.DEFINE_enum('dtype', 'bfloat16', storage.STORAGES, 'Storage of the model directory.')

_GB = 10 ** 9


def shapes_of_at_least(num_bytes: float) -> dict[str, tuple[int, ...]]:
  """Parameters of the shallowest model of XXL's widths with so many bytes of float32."""
  for layers in range(1, 1000):
    shapes = parameter_shapes(T5Config(emb_dim=4096, num_heads=64, mlp_dim=10240,
                                       num_encoder_layers=layers, num_decoder_layers=layers))
    if sum(storage.num_bytes(shape, 'float32') for shape in shapes.values()) >= num_bytes:
      return shapes
  raise ValueError(f'No model of {num_bytes / _GB} GB; --gigabytes is too large.')


def random_leaf(path: str, shape: tuple[int, ...]) -> np.ndarray:
  """Normal float32, the same for the same path."""
  rng = np.random.default_rng(list(path.encode()))
  return rng.standard_normal(shape, np.float32)


def write_t5x(directory: pathlib.Path, shapes: dict[str, tuple[int, ...]]) -> None:
  """T5X's own format with its own settings: one gzip chunk a leaf."""
  specs = {}
  for path, shape in shapes.items():
    folder = 'target.' + path.replace('/', '.') + '/'
    specs[path] = {
        'driver': 'zarr', 'dtype': 'float32', 'kvstore': {'driver': 'file', 'path': folder},
        'metadata': {'chunks': list(shape), 'compressor': {'id': 'gzip', 'level': 1},
                     'shape': list(shape)}}
    spec = {**specs[path], 'kvstore': {'driver': 'file', 'path': f'{directory}/{folder}'}}
    ts.open(spec, create=True).result().write(random_leaf(path, shape)).result()
  index = {'version': 3, 'optimizer': {'target': traverse_util.unflatten_dict(specs, sep='/')}}
  (directory / 'checkpoint').write_bytes(serialization.msgpack_serialize(index))


def run_import(source: pathlib.Path, output: pathlib.Path) -> int:
  """Runs import_checkpoint.py under the limit; returns the peak of RssAnon in bytes."""
  limit = int(_LIMIT.value * _GB)
  script = pathlib.Path(__file__).with_name('import_checkpoint.py')
  process = subprocess.Popen(
      [sys.executable, str(script), '--format=t5x', f'--input={source}', f'--output={output}',
       f'--dtype={_DTYPE.value}'],
      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)))
  peak = 0
  while process.poll() is None:
    try:
      status = pathlib.Path(f'/proc/{process.pid}/status').read_text()
    except OSError:  # it has just ended
      continue
    for line in status.splitlines():
      if line.startswith('RssAnon:'):
        peak = max(peak, int(line.split()[1]) * 1024)
    time.sleep(0.02)
  if process.returncode:
    raise SystemExit(f'The import failed with exit code {process.returncode} '
                     f'under a limit of {_LIMIT.value} GB.')
  return peak


def check_leaves(output: pathlib.Path, shapes: dict[str, tuple[int, ...]]) -> None:
  """Compares every leaf of the model directory with what was generated."""
  left = dict(shapes)
  for path, array in storage.read(output / 'weights', 'float32'):
    stored = storage.compress(path, random_leaf(path, left.pop(path)), _DTYPE.value)
    np.testing.assert_array_equal(array, storage.expand(path, stored, 'float32'), err_msg=path)
  if left:
    raise SystemExit(f'Missing from the model directory: {sorted(left)}')


def disk_bytes(directory: pathlib.Path) -> int:
  return sum(file.stat().st_size for file in directory.rglob('*') if file.is_file())


def main(argv):
  del argv
  shapes = shapes_of_at_least(_GIGABYTES.value * _GB)
  work = pathlib.Path(tempfile.mkdtemp(prefix='import_memory_', dir=_DIRECTORY.value))
  try:
    source, output = work / 'checkpoint_0', work / 'model'
    source.mkdir()
    write_t5x(source, shapes)
    start = time.perf_counter()
    peak = run_import(source, output)
    seconds = time.perf_counter() - start
    check_leaves(output, shapes)
    print(f'checkpoint {disk_bytes(source) / _GB:.2f} GB -> model directory '
          f'{disk_bytes(output) / _GB:.2f} GB ({_DTYPE.value}) in {seconds:.0f} s; '
          f'peak of anonymous memory {peak / _GB:.2f} GB, limit {_LIMIT.value:.2f} GB')
  finally:
    shutil.rmtree(work)


if __name__ == '__main__':
  app.run(main)
