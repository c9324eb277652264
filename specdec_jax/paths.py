"""Where a path that a user writes leads, and where the files that come with the code are, in a clone or a wheel."""

import os
import pathlib

from specdec_jax.checks import shown
from specdec_jax.errors import MissingError, SettingError

PACKAGE = pathlib.Path(__file__).resolve().parent
EMBEDDED_PREFIX = 'embedded:'


def gin_search_paths() -> list[pathlib.Path]:
  """Folders under which `gin/...` and `configs/...` are found.

  A wheel carries both inside the package; a clone or editable install has them beside it.
  """
  return [root for root in (PACKAGE, PACKAGE.parent) if (root / 'configs').is_dir()]


def embedded_dir(name: str) -> pathlib.Path:
  """The folder or file `name`, such as 'ende/target', among what the package ships.

  Raises:
    FileNotFoundError: there is none; those there are are listed.
  """
  path = PACKAGE / 'embedded' / name
  if not path.exists():
    shipped = sorted(p.relative_to(PACKAGE / 'embedded').as_posix()
                     for p in PACKAGE.glob('embedded/*/*')
                     if p.is_dir() or p.suffix in ('.gz', '.model'))
    raise MissingError(f"The package ships no '{EMBEDDED_PREFIX}{name}'; it has "
                            + (', '.join(EMBEDDED_PREFIX + s for s in shipped) or 'nothing') + '.')
  return path


def resolve(path: str | os.PathLike, name: str = 'path') -> str:
  """A path as the user writes it -> as the operating system takes it.

  'embedded:NAME' becomes its place on this machine, '~' the home folder; any other path stays as it is.

  Args:
    path: such as '~/models/xxl', 'gs://bucket/model' or 'embedded:ende/target'.
    name: of the setting, for messages.

  Raises:
    SettingError: not a path, or an address that cannot be read.
    MissingError: nothing of that name is shipped.
  """
  text = os.fspath(path) if isinstance(path, os.PathLike) else path
  if not isinstance(text, str) or not text or '\0' in text:
    raise SettingError(f"{name} is {shown(path)}; it must be a path, a text such as 'DIR/FILE'.")
  if text.startswith(EMBEDDED_PREFIX):
    return str(embedded_dir(text.removeprefix(EMBEDDED_PREFIX)))
  scheme, is_address, _ = text.partition('://')
  if is_address and scheme not in ('gs', 's3'):
    raise SettingError(
        f'{name} is {shown(path)}; it must be a local path or a gs:// address: copy the files here first.')
  return os.path.expanduser(text)
