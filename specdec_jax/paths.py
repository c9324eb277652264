"""Where the files that come with the code are, in a clone as in an installed wheel."""

import os
import pathlib

from specdec_jax.errors import MissingError

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


def resolve(path: str | os.PathLike) -> str:
  """'embedded:NAME' -> its place on this machine; any other path as it is."""
  path = os.fspath(path)
  if path.startswith(EMBEDDED_PREFIX):
    return str(embedded_dir(path.removeprefix(EMBEDDED_PREFIX)))
  return path
