"""What every run shares: the compilation cache, the output directory and its records."""

import contextlib
import os
from collections.abc import Callable

import gin
import jax
from absl import logging

from specdec_jax import arguments
from specdec_jax.cli import gin_config
from specdec_jax.errors import OutputError, SettingError
from specdec_jax.files.locations import is_remote
from specdec_jax.jobs import output, sharing
from specdec_jax.parallel import hosts as hosts_lib
from specdec_jax.paths import resolve
from specdec_jax.runs import registry


@arguments.checked(
    run=arguments.function, output_dir=arguments.path, compilation_cache_dir=arguments.optional(arguments.path),
    hosts=arguments.optional(arguments.instance(hosts_lib.Hosts, '@Hosts(), or None')))
def main(run: Callable = gin.REQUIRED, output_dir: str = gin.REQUIRED,
         compilation_cache_dir: str | None = '~/.cache/specdec_jax/compilation',
         hosts: hosts_lib.Hosts | None = None):
  """Runs `run(output_dir)` and saves beside its results what they came from.

  Args:
    run: such as @decode or @compare.
    output_dir: a directory, local or gs://; one that holds the results of the same
      configuration is continued, any other is refused.
    compilation_cache_dir: where compiled programs are kept between runs, unless
      JAX_COMPILATION_CACHE_DIR names another place; None keeps none.
    hosts: @Hosts() where this process is one of several, each of which runs the same command.
  """
  keep_compilations(compilation_cache_dir)
  with hosts_lib.joined(hosts):
    if hosts_lib.count() > 1 and not registry.several_hosts(run):
      raise SettingError(f'{run.__name__} runs in one process, and this is one of {hosts_lib.count()}; '
                       'decode runs in several.')
    with sharing.claimed(output_dir, gin_config.flat()) as directory:
      output.write(directory, 'config.gin', gin.config_str())
      output.write_json(directory, 'environment.json', output.environment())
      try:
        run(directory)
      except BaseException:
        with contextlib.suppress(OutputError):  # what went wrong first is what counts
          _write_operative_config(directory)
        raise
      _write_operative_config(directory)


def _write_operative_config(directory: str) -> None:
  output.write(directory, 'operative_config.gin', gin.operative_config_str())


def keep_compilations(directory: str | None) -> None:
  """Turns jax's persistent compilation cache on, for programs of every size and compile time."""
  directory = jax.config.jax_compilation_cache_dir or directory
  if directory is None:
    return
  directory = resolve(directory, 'main.compilation_cache_dir')
  try:
    if not is_remote(directory):
      os.makedirs(directory, exist_ok=True)
  except OSError as e:
    logging.warning('No compilation cache: %s. Set main.compilation_cache_dir.', e)
    return
  jax.config.update('jax_compilation_cache_dir', directory)
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
