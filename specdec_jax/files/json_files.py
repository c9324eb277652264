"""JSON files of another program or of a damaged disk: an object, of a bounded size, or one line that says why not."""

import collections
import json
import os
from typing import Any

from specdec_jax.errors import CheckpointError
from specdec_jax.files.reading import read_bytes

MOST_BYTES = 100_000_000


def read_json(path: str | os.PathLike, what: str = 'file', most: int = MOST_BYTES) -> dict[str, Any]:
  """The object in a JSON file.

  Args:
    path: local or gs://, made absolute.
    what: what messages call it.
    most: the largest size allowed, in bytes.

  Raises:
    CheckpointError: missing, no regular file, too large, truncated, not JSON, or not an object.
  """
  return parse(read_bytes(path, what, most, CheckpointError), f"The {what} '{path}'")


def parse(content: bytes, subject: str, constants: bool = True) -> dict[str, Any]:
  """The object in JSON text of UTF-8; a name that stands twice in one object is an error.

  Args:
    content: the text.
    subject: what messages call it.
    constants: whether NaN and Infinity are taken, as Python writes them.
  """
  try:
    found = json.loads(content.decode('utf-8'), object_pairs_hook=_once,
                       parse_constant=None if constants else _refuse)
  except RecursionError:
    raise CheckpointError(f'{subject} is nested too deeply to be read; copy it again.') from None
  except ValueError as e:
    raise CheckpointError(f'{subject} is truncated or not JSON ({e}); copy it again.') from e
  if not isinstance(found, dict):
    raise CheckpointError(f'{subject} is not a JSON object; copy it again.')
  return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  found = dict(pairs)
  if len(found) < len(pairs):
    twice = next(name for name, count in collections.Counter(name for name, _ in pairs).items() if count > 1)
    raise ValueError(f'{twice[:80]!r} stands twice')
  return found


def _refuse(constant: str):
  raise ValueError(f'{constant} is not a JSON number')
