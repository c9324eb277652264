"""Which existing directories may be replaced: those that hold nothing but what their replacer would write."""

import os
from collections.abc import Callable

from etils import epath

from specdec_jax.errors import OutputError

# Given a directory: what keeps it from being replaced, as the end of a sentence ('holds notes.txt, which is not of a
# model'); None where nothing does.
Foreign = Callable[[epath.Path], str | None]


def check_replaceable(directory: epath.Path, foreign: Foreign | None, name: str | os.PathLike | None = None) -> None:
  """OutputError where what stands at a path may not be replaced.

  Args:
    directory: what stands there.
    foreign: None where nothing may be replaced. An empty directory may be, without being asked for.
    name: what messages call it; the directory itself by default.
  """
  name = os.fspath(name or directory)
  if foreign is None:
    raise OutputError(f"'{name}' exists already; name another directory or remove it.")
  if not directory.is_dir():
    raise OutputError(f"'{name}' is not overwritten: it is a file. Name another directory, or move it away.")
  reason = foreign(directory) if any(directory.iterdir()) else None
  if reason:
    raise OutputError(f"'{name}' is not overwritten: it {reason}. Name another directory, or move it away.")


def only(names: set[str]) -> Foreign:
  """Directories that hold no other names than these."""
  def foreign(directory: epath.Path) -> str | None:
    others = sorted(p.name for p in directory.iterdir() if p.name not in names)
    return f"holds '{others[0]}', which is not this program's" if others else None
  return foreign
