"""How Orbax is called: by paths that it understands, without its notices."""

import contextlib
import glob
import logging
import os
import tempfile
from collections.abc import Iterator

from etils import epath

from specdec_jax.files.locations import is_remote


@contextlib.contextmanager
def plain(directory: epath.Path) -> Iterator[epath.Path]:
  """A path to a directory that Orbax, which looks for files below it by a pattern, does not take for one."""
  if is_remote(directory) or not glob.has_magic(os.fspath(directory)):
    yield directory
    return
  with tempfile.TemporaryDirectory() as folder:
    link = epath.Path(folder) / 'link'
    os.symlink(os.path.abspath(directory), link)
    yield link


@contextlib.contextmanager
def quiet() -> Iterator[None]:
  """Keeps Orbax's notices about optional metadata files off the screen."""
  logger = logging.getLogger('absl')
  level = logger.level
  logger.setLevel(logging.ERROR)
  try:
    yield
  finally:
    logger.setLevel(level)
