"""Shared test set-up: the CPU, deterministic property tests, the modules in helpers/, the tiny pair's fixtures."""

import gc
import os
import pathlib
import sys

import pytest
from hypothesis import settings

os.environ.setdefault('JAX_PLATFORMS', 'cpu')
# Compiling is most of the tests' time, and programs that are optimised less run the same arithmetic.
os.environ.setdefault('XLA_FLAGS', ' '.join([
    '--xla_backend_optimization_level=0', '--xla_llvm_disable_expensive_passes=true',
    '--xla_cpu_parallel_codegen_split_count=1', '--xla_cpu_enable_concurrency_optimized_scheduler=false']))
sys.path.insert(0, str(pathlib.Path(__file__).parent / 'helpers'))
pytest_plugins = ['tiny_pair']

settings.register_profile('repeatable', derandomize=True, deadline=None, database=None)
settings.load_profile('repeatable')


@pytest.fixture(autouse=True)
def nothing_is_left_of_a_run():
  """A run locks gin's configuration and turns the compilation cache on; the next test has neither."""
  yield
  if 'gin' in sys.modules:
    sys.modules['gin'].clear_config()
  if 'jax' in sys.modules and (jax := sys.modules['jax']).config.jax_compilation_cache_dir:
    from jax.experimental.compilation_cache import compilation_cache
    jax.config.update('jax_compilation_cache_dir', None)
    compilation_cache.reset_cache()


# Files of half a minute and more begin first, so that no process waits for another at the end.
LONGEST_FILES = [
    'tpu/test_planner.py', 'decoding/test_trees.py', 'decoding/test_distribution.py', 'training/test_trainer.py',
    'runs/test_compare.py', 'runs/test_decode.py', 'decoding/test_running.py',
    'checkpoints/test_greedy_fixtures.py', 'training/test_sharded.py', 'parallel/test_mesh.py',
    'drafters/test_heads.py', 'cli/test_console.py', 'checkpoints/test_importer.py', 'parallel/test_hosts.py',
    'decoding/test_samples.py', 'drafters/test_exactness.py', 'data/test_tasks.py',
    'jobs/test_choosing.py', 'analysis/test_alpha.py', 'analysis/test_cost.py', 'decoding/test_rows.py',
    'decoding/test_state.py']


def pytest_collection_modifyitems(items):
  places = {pathlib.Path(__file__).parent / name: place for place, name in enumerate(LONGEST_FILES)}
  items.sort(key=lambda item: places.get(item.path, len(places)))


MOST_MAPS = 15_000  # a quarter of what Linux lets a process have (vm.max_map_count)


@pytest.fixture(autouse=True, scope='module')
def few_programs_are_held():
  """Every program that XLA compiles for a CPU holds memory maps, and a process that runs out of them crashes."""
  yield
  maps = pathlib.Path('/proc/self/maps')
  if 'jax' in sys.modules and maps.exists() and maps.read_bytes().count(b'\n') > MOST_MAPS:
    sys.modules['jax'].clear_caches()
    gc.collect()
