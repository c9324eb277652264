"""seqio and TensorFlow, imported without their noise and without the accelerator."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator

from specdec_jax.errors import DependencyError
from specdec_jax.notes import note


def import_seqio():
  """The module seqio. TensorFlow, which takes some seconds, comes with it and sees no GPU: its memory is for JAX.

  Raises:
    DependencyError: one of them cannot be imported.
  """
  if 'tensorflow' not in sys.modules:
    note('reading a seqio task: TensorFlow starts')
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
  try:
    with _kept_back():
      import seqio
      import tensorflow as tf
      tf.config.set_visible_devices([], 'GPU')
  except ImportError as e:
    raise DependencyError(f'seqio tasks need seqio and TensorFlow: pip install seqio ({e}).') from e
  return seqio


@contextlib.contextmanager
def _kept_back() -> Iterator[None]:
  """What is written to stderr meanwhile, by C++ too, comes out only if something fails."""
  sys.stderr.flush()
  kept = os.dup(2)
  with tempfile.TemporaryFile() as written:
    os.dup2(written.fileno(), 2)
    try:
      yield
    except BaseException:
      sys.stderr.flush()
      os.dup2(kept, 2)
      written.seek(0)
      os.write(2, written.read())
      raise
    finally:
      sys.stderr.flush()
      os.dup2(kept, 2)
      os.close(kept)
