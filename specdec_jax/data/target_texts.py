"""What an example may say of its output, as it is read: a prefix of it, or texts that may be it."""

from typing import Any

from specdec_jax import checks
from specdec_jax.data.lines import BadLine, check_text

TextOrIds = str | tuple[int, ...]


def ids(value: Any, name: str = 'tokens') -> tuple[int, ...]:
  """A list of token ids; BadLine where it is none, or empty."""
  if not isinstance(value, list | tuple) or not all(type(i) is int and 0 <= i < 2 ** 31 for i in value):
    raise BadLine(f'the {name} are {checks.shown(value)}; use a list of ids, whole numbers of at least 0')
  if not value:
    raise BadLine(f'the list of {name} is empty')
  return tuple(value)


def text_or_ids(value: Any, name: str) -> TextOrIds:
  """A text, or a list of token ids; BadLine where it is neither."""
  if isinstance(value, str):
    check_text(name, value)
    return value
  if not isinstance(value, list | tuple):
    raise BadLine(f'the {name} is {checks.shown(value)}; use a text, or a list of token ids')
  return ids(value, f'token ids of the {name}')


def texts_or_ids(value: Any) -> tuple[TextOrIds, ...]:
  """One target or a list of them, of texts or of lists of ids; BadLine where there is none."""
  one = isinstance(value, str) or (isinstance(value, list | tuple) and bool(value) and type(value[0]) is int)
  several = (value,) if one else value
  if not isinstance(several, list | tuple) or not several:
    raise BadLine(f'the targets are {checks.shown(value)}; use a text, or a list of texts')
  return tuple(text_or_ids(target, f'target {i}') for i, target in enumerate(several))


def label(value: Any, targets: tuple[TextOrIds, ...]) -> int:
  """Which of the targets is right, counted from 0; BadLine where there is none of that number."""
  number = int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 10 else value
  if type(number) is not int or not 0 <= number < len(targets):
    raise BadLine(f'the label is {checks.shown(value)}; use a whole number from 0 to {len(targets) - 1}, the place of '
                  'the right target')
  return number
