"""What precompile leaves in the cache is all that the job needs."""

import re

import gin
import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_config
from specdec_jax.jobs import compilations

SETTINGS = ('jax_compilation_cache_dir', 'jax_persistent_cache_min_compile_time_secs',
            'jax_persistent_cache_min_entry_size_bytes')


@pytest.fixture
def cache(tmp_path):
  """An empty compilation cache; jax's own settings come back afterwards."""
  before = {name: getattr(jax.config, name) for name in SETTINGS}
  jax.config.update('jax_compilation_cache_dir', None)
  compilation_cache.reset_cache()
  yield str(tmp_path / 'cache')
  for name, value in before.items():
    jax.config.update(name, value)
  compilation_cache.reset_cache()
  gin.clear_config()


def run(files, output_dir, cache, name):
  """Runs `name` on a tiny job; returns the counts of jax's cache events."""
  jax.clear_caches()
  gin_config.parse(['gin/runs/decode.gin', 'gin/drafters/model.gin', 'gin/inputs/file.gin',
                    'gin/sampling/greedy.gin'], [
      f"TARGET = '{files}/target'", f"DRAFT = '{files}/draft'", f"INPUTS = '{files}/inputs.jsonl'",
      f"OUTPUT_DIR = '{output_dir}'", f'main.run = @{name}', f'main.compilation_cache_dir = {cache!r}',
      'decode.max_input_len = 16', 'decode.max_decode_len = 4', 'decode.gamma = 2', 'decode.batch_size = 4'])
  with compilations.counted() as counts:
    gin.get_configurable('main')()
  return counts


def test_a_job_of_precompiled_shapes_compiles_nothing(files, tmp_path, cache, capsys):
  first = run(files, tmp_path / 'out', cache, 'precompile')
  assert first['cache_misses'] > 0 and first['cache_hits'] == 0
  said = re.search(r'Batches of 4 inputs of 16 tokens: (\d+) programs compiled, 0 found in (.*)\.\n',
                   capsys.readouterr().out)
  assert 0 < int(said[1]) <= first['cache_misses'] and said[2] == cache  # loading compiles, too
  job = run(files, tmp_path / 'out', cache, 'decode')  # in the same directory
  assert job['cache_misses'] == 0 and job['cache_hits'] > 0
  assert (tmp_path / 'out' / 'predictions.jsonl').exists()


def test_inputs_are_not_read(files, tmp_path, cache, monkeypatch):
  monkeypatch.setattr('specdec_jax.data.examples.raw_lines', lambda path: 1 / 0)
  run(files, tmp_path / 'out', cache, 'precompile')
  with pytest.raises(ZeroDivisionError):
    run(files, tmp_path / 'out', cache, 'decode')


def test_without_a_cache_there_is_nothing_to_fill(files, tmp_path, cache):
  with pytest.raises(ValueError, match='set main.compilation_cache_dir'):
    run(files, tmp_path / 'out', None, 'precompile')
