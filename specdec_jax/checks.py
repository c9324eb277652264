"""Checks of settings where they enter: type and range, each mistake in one line that names the setting."""

import math
import numbers
import types
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from specdec_jax.errors import SettingError

MOST_DRAFTED = 1024  # tokens of one draft: longer ones take minutes to compile, and none is accepted so far
MOST_TOKENS = 1 << 20  # of one text


def whole(name: str, value: Any, least: int, most: int | None = None, hint: str = '') -> int:
  """The value as an int.

  Args:
    name: of the setting, as the user writes it, such as 'decode.gamma'.
    value: an integer, or a float without a fraction such as 4.0. Booleans and texts are refused.
    least, most: both allowed; most may be None.
    hint: added to the message, with a space in front.

  Raises:
    SettingError: another type, not a whole number, or out of range.
  """
  bounds = f'of at least {least}' if most is None else f'from {least} to {most}'
  if not _is_number(value) or not _is_whole(value) or value < least or (most is not None and value > most):
    raise SettingError(f'{name} is {shown(value)}; it must be a whole number {bounds}{hint}.')
  return int(value)


def real(name: str, value: Any, allowed: Callable[[float], bool], must: str) -> float:
  """The value as a float.

  Args:
    name: of the setting.
    value: a number; booleans, texts and NaN are refused.
    allowed: whether a number is in range.
    must: what the message says of the range, such as 'in [0, 1]'.
  """
  number = _as_float(value) if _is_number(value) else math.nan
  if math.isnan(number) or not allowed(number):
    raise SettingError(f'{name} is {shown(value)}; it must be a number {must}.')
  return number


def flag(name: str, value: Any) -> bool:
  """The value as a bool; numbers and texts are refused."""
  if not isinstance(value, (bool, np.bool_)):
    raise SettingError(f'{name} is {shown(value)}; it must be True or False.')
  return bool(value)


def text(name: str, value: Any, empty: bool = True) -> str:
  """The value, a str."""
  if not isinstance(value, str) or not (value or empty):
    raise SettingError(f"{name} is {shown(value)}; it must be a text{'' if empty else ' that is not empty'}.")
  return value


def choice(name: str, value: Any, choices: Collection[str]) -> str:
  """The value, one of a few texts."""
  if not isinstance(value, str) or value not in choices:
    raise SettingError(f"{name} is {shown(value)}; it must be {one_of(choices)}.")
  return value


def instance(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> Any:
  """The value, an instance of some classes; `what` says in words what that is."""
  if not isinstance(value, kinds):
    raise SettingError(f'{name} is {shown(value)}; it must be {what}.')
  return value


def sequence(name: str, value: Any, item: Callable[[str, Any], Any], empty: bool = False) -> tuple:
  """The value as a tuple, each item checked by `item(name, value)`; a lone text is refused."""
  if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or isinstance(value, dict):
    raise SettingError(f'{name} is {shown(value)}; it must be a tuple or list.')
  items = tuple(item(f'{name}[{i}]', v) for i, v in enumerate(value))
  if not items and not empty:
    raise SettingError(f'{name} is empty; it needs at least one value.')
  return items


def wholes(name: str, value: Any, least: int, most: int | None = None, empty: bool = False) -> tuple[int, ...]:
  """The value as a tuple of ints."""
  return sequence(name, value, lambda n, v: whole(n, v, least, most), empty)


def integers(name: str, value: Any, shape: Sequence[int | None], what: str) -> np.ndarray:
  """The value as an integer array.

  Args:
    name: of the argument.
    value: anything that NumPy takes for an array of integers.
    shape: its dimensions; None where any size will do.
    what: what the message calls the shape, such as '[batch, length]'.
  """
  try:
    array = np.asarray(value)
  except ValueError:
    raise SettingError(f'{name} has rows of unequal lengths; it must be integers {what}.') from None
  fits = array.ndim == len(shape) and all(s is None or s == d for s, d in zip(shape, array.shape))
  if not fits or not np.issubdtype(array.dtype, np.integer):
    raise SettingError(f'{name} must be integers {what}, not {array.dtype} of shape {list(array.shape)}.')
  return array


def row_lengths(name: str, value: Any, rows: Sequence[int], columns: int, of: str, least: int = 0) -> np.ndarray:
  """How many tokens of each row count, int32 of the rows' shape.

  Args:
    name: of the argument.
    value: anything that NumPy takes for an array of integers.
    rows: shape of what has the tokens, its columns left out.
    columns, of: how many columns that has, the most that may count, and what it is called.
    least: that may count.
  """
  found = integers(name, value, rows, f'of shape {list(rows)}, one a row of {of}')
  if found.size and (found.min() < least or found.max() > columns):
    raise SettingError(f'{name} go from {found.min()} to {found.max()}; they must be {least} to {columns}, the columns '
                       f'of {of}.')
  return found.astype(np.int32)


def shown(value: Any) -> str:
  """A value as a message shows it: short, on one line, classes by their name."""
  if isinstance(value, np.generic):
    value = value.item()
  if isinstance(value, type):
    return f'the class {value.__name__}'
  if isinstance(value, (str, numbers.Number, bool, type(None), list, tuple, dict, set)):
    try:
      seen = ' '.join(repr(value).split())
    except ValueError:  # Python writes out no number of more than 4,300 digits
      seen = 'a number of thousands of digits'
  elif isinstance(value, types.FunctionType):
    seen = f'the function {value.__name__}'
  else:
    seen = f'a {type(value).__name__}'
  return seen if len(seen) <= 80 else seen[:77] + '...'


def one_of(choices: Iterable[str]) -> str:
  """'a', 'b' or 'c'."""
  *most, last = [repr(c) for c in choices]
  return f"{', '.join(most)} or {last}" if most else last


def _is_whole(value) -> bool:
  return isinstance(value, numbers.Integral) or (math.isfinite(value) and value == int(value))


def _as_float(value) -> float:
  try:
    return float(value)
  except OverflowError:  # an int beyond the largest float
    return math.inf if value > 0 else -math.inf


def _is_number(value: Any) -> bool:
  return isinstance(value, (numbers.Real, np.number)) and not isinstance(value, (bool, np.bool_, complex))
