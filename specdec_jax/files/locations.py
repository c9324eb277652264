"""Local and gs:// paths, as etils and as TensorStore name them."""

import os

from etils import epath

from specdec_jax import paths
from specdec_jax.errors import CheckpointError


def is_remote(path: str | os.PathLike) -> bool:
  """Whether a path is an address such as gs://bucket/folder."""
  return '://' in os.fspath(path)


def absolute(path: str | os.PathLike) -> epath.Path:
  """A local path made absolute, an address as it is; '~' and 'embedded:' as in `paths.resolve`."""
  name = paths.resolve(path)
  return epath.Path(name if is_remote(name) else os.path.abspath(name))


def kvstore(path: str | os.PathLike) -> dict:
  """TensorStore's description of a directory, local or gs://."""
  name = os.fspath(path)
  if not is_remote(name):
    return {'driver': 'file', 'path': name.rstrip('/') + '/'}
  scheme, _, rest = name.partition('://')
  if scheme != 'gs':
    raise CheckpointError(f"'{name}': only local and gs:// paths can be read.")
  bucket, _, folder = rest.partition('/')
  return {'driver': 'gcs', 'bucket': bucket, 'path': folder.rstrip('/') + '/' if folder else ''}


def existing_directory(path: str | os.PathLike) -> epath.Path:
  """The absolute path of a directory; CheckpointError where there is none."""
  directory = absolute(path)
  try:
    found = directory.is_dir()
  except ImportError as e:
    raise CheckpointError(f"'{path}' needs a package for its file system: {e}") from e
  if not found:
    state = 'is a file; give its directory' if directory.exists() else 'does not exist'
    raise CheckpointError(f"'{directory}' {state}.")
  return directory
