"""The precompile run: fills the compilation cache ahead of a decode job."""

import dataclasses
import inspect

import gin
import jax
import numpy as np

from specdec_jax.errors import SettingError
from specdec_jax.jobs import batching, compilations
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure.methods import Method
from specdec_jax.runs.decode import decode


def precompile(output_dir: str) -> dict[str, int]:
  """Compiles what `decode`, as it is configured, will run: a program for each bucket of inputs.

  `--gin.main.run=@precompile` in a decode configuration does it. A batch of each shape is decoded
  once and dropped, so whatever fails for want of memory fails here.

  Args:
    output_dir: claimed by `launch.main`; nothing is written there, a decode may follow in it.

  Returns:
    How many programs were 'compiled', and how many were 'found' in the cache.

  Raises:
    ValueError: there is no cache to fill.
  """
  del output_dir
  directory = jax.config.jax_compilation_cache_dir
  if not directory:
    raise SettingError('precompile fills the compilation cache, and there is none; set '
                     'main.compilation_cache_dir or JAX_COMPILATION_CACHE_DIR.')
  with compilations.counted() as counts:
    bound = inspect.signature(decode).bind_partial(**gin.get_bindings('decode'))
    bound.apply_defaults()
    job = bound.arguments
    method = Method(**{f.name: job[f.name] for f in dataclasses.fields(Method)})
    lengths = batching.bucket_lengths(job['max_input_len'], job['buckets'])
    with Progress(len(lengths), method.name, 'shape') as progress:
      for length in lengths:
        method(job['target'], _any_batch(job['target'], job['batch_size'], length))
        progress.add(1)
  found = {'compiled': counts['cache_misses'], 'found': counts['cache_hits']}
  shapes = ', '.join(map(str, lengths))
  print(f"Batches of {job['batch_size']} inputs of {shapes} tokens: {found['compiled']} programs compiled, "
        f"{found['found']} found in {directory}.")
  return found


def _any_batch(target, batch_size: int, length: int) -> batching.Batch:
  """A batch with the shapes and types of a job's."""
  lengths = np.full(batch_size, length, np.int32) if target.config.decoder_only else None
  return batching.Batch(indices=np.arange(batch_size), ids=np.arange(batch_size), lengths=lengths,
                        tokens=np.full((batch_size, length), target.eos_id, np.int32))
