"""The precompile run: fills the compilation cache ahead of a decode job."""

import gin
import jax

from specdec_jax.errors import SettingError
from specdec_jax.runs.decode import decode


def precompile(output_dir: str) -> dict[str, int]:
  """Compiles what `decode`, as it is configured, will run: a program for each bucket of inputs.

  `--gin.main.run=@precompile` in a decode configuration does it. A batch of each shape is decoded
  once and dropped, so whatever fails for want of memory fails here. The inputs are not read.

  Args:
    output_dir: claimed by `launch.main`; nothing is written there, a decode may follow in it.

  Returns:
    How many programs were 'compiled', and how many were 'found' in the cache.

  Raises:
    SettingError: there is no cache to fill.
  """
  if not jax.config.jax_compilation_cache_dir:
    raise SettingError('precompile fills the compilation cache, and there is none; set '
                       'main.compilation_cache_dir or JAX_COMPILATION_CACHE_DIR.')
  # gin fills in the settings of decode; the examples are given here, so that it reads none.
  return gin.get_configurable(decode)(output_dir, gin.REQUIRED, (), compile_only=True)
