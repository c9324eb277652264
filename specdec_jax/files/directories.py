"""Directories that appear under their name only when they are whole."""

import contextlib
import os

from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import absolute, is_remote


@contextlib.contextmanager
def new_directory(path: str | os.PathLike, overwrite: bool = False):
  """Yields a directory to fill, which takes the name `path` when all went well.

  On gs:// there is no atomic rename: the directory is filled in place and
  counts as complete once it has config.json, which is written last.
  """
  target = absolute(path)
  if target.exists() and not overwrite:
    raise CheckpointError(f"'{target}' exists already; name another directory or remove it.")
  remote = is_remote(target)
  partial = target if remote else target.with_name(f'.{target.name}.partial-{os.getpid()}')
  partial.rmtree(missing_ok=True)
  partial.mkdir(parents=True)
  try:
    yield partial
  except BaseException:
    partial.rmtree(missing_ok=True)
    raise
  if not remote:
    target.rmtree(missing_ok=True)
    partial.rename(target)
