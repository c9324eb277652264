"""Directories on gs://, where nothing is renamed: filled in place, under a mark that names who fills them."""

import contextlib
import dataclasses
import json
from collections.abc import Iterator

from etils import epath

from specdec_jax.errors import OutputError
from specdec_jax.files.owners import Owner, this_process
from specdec_jax.files.replacing import Foreign, check_replaceable

MARK = '.writing.json'  # while it is there, the directory is not whole


@contextlib.contextmanager
def new_remote_directory(target: epath.Path, foreign: Foreign | None) -> Iterator[epath.Path]:
  """As `directories.new_directory`; two that start in the same instant are told apart at the end, where one fails.

  What the directory held is removed before it is filled. A process that is killed leaves its mark and what it wrote.
  """
  mark = target / MARK
  if mark.exists():
    raise OutputError(f"'{target}' is being written by {_owner(mark) or 'another process'}; "
                      'if that is no more, remove the directory.')
  if target.exists():
    check_replaceable(target, foreign)
    target.rmtree()
  me = this_process(flock=False)
  target.mkdir(parents=True, exist_ok=True)
  mark.write_text(json.dumps(dataclasses.asdict(me)))
  try:
    yield target
  except BaseException:
    if _owner(mark) == me:
      target.rmtree(missing_ok=True)
    raise
  if _owner(mark) != me:
    raise OutputError(f"'{target}' was taken over by {_owner(mark) or 'another process'} while it was being written; "
                      'name another directory.')
  mark.unlink()


def _owner(mark: epath.Path) -> Owner | None:
  """Who a mark names; None where it is gone or damaged."""
  try:
    return Owner(**json.loads(mark.read_text()))
  except (OSError, ValueError, TypeError):
    return None
