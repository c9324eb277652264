"""Arguments of the theory as float64 arrays, each checked against its domain; a SettingError names the value."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from numpy.typing import ArrayLike

from specdec_jax.checks import shown
from specdec_jax.errors import SettingError

Numbers = Float64[np.ndarray, '...']


def distributions(p: ArrayLike, q: ArrayLike) -> tuple[Float64[np.ndarray, '... V'], Float64[np.ndarray, '... V']]:
  """p and q, distributions over the same tokens."""
  p, q = numbers(p, 'p'), numbers(q, 'q')
  if not p.ndim or not q.ndim or p.shape[-1] != q.shape[-1]:
    raise SettingError(f'p and q have shapes {list(p.shape)} and {list(q.shape)}; both are [..., V], '
                       'distributions over the same V tokens.')
  for values, name in ((p, 'p'), (q, 'q')):
    check(values, values >= 0, name, 'must hold probabilities')
    total = values.sum(-1)
    check(total, np.abs(total - 1) < 1e-3, f'the sum of {name}', 'must be 1')
  return p, q


def acceptance_by_rank(value: ArrayLike) -> Float64[np.ndarray, ' K']:
  """Probabilities that the candidate of each rank is the one accepted: they sum to at most 1."""
  value = probabilities(value, 'acceptance_by_rank')
  if value.ndim != 1 or not len(value):
    raise SettingError(f'acceptance_by_rank has shape {list(value.shape)}; it is [K], one probability a rank.')
  total = np.asarray(value.sum())
  check(total, total <= 1 + 1e-6, 'the sum of acceptance_by_rank', 'must be at most 1')
  return value


def probabilities(value: ArrayLike, name: str) -> Numbers:
  """Numbers in [0, 1]."""
  value = numbers(value, name)
  return check(value, (value >= 0) & (value <= 1), name, 'must lie in [0, 1]')


def whole(value: ArrayLike, name: str) -> Numbers:
  """Whole numbers, 0 or more."""
  value = numbers(value, name)
  valid = (value >= 0) & (value == np.floor(value)) & np.isfinite(value)
  return check(value, valid, name, 'must be a whole number, 0 or more')


def not_negative(value: ArrayLike, name: str) -> Numbers:
  """Finite numbers, 0 or more."""
  value = numbers(value, name)
  return check(value, (value >= 0) & np.isfinite(value), name, 'must be finite, 0 or more')


def positive(value: ArrayLike, name: str) -> Numbers:
  """Finite numbers above 0."""
  value = numbers(value, name)
  return check(value, (value > 0) & np.isfinite(value), name, 'must be finite and more than 0')


def numbers(value: ArrayLike, name: str) -> Numbers:
  """An array of any numbers; texts, booleans and None are refused."""
  try:
    array = np.asarray(value)
  except ValueError:
    raise SettingError(f'{name} is {shown(value)}; it must be a number or an array of numbers.') from None
  if array.dtype.kind in 'bcOSUMm':
    raise SettingError(f'{name} is {shown(value)}; it must be a number or an array of numbers.')
  return array.astype(np.float64)


def check(value: Numbers, valid: Bool[np.ndarray, '...'], name: str, must: str) -> Numbers:
  """The value, if all of it is valid."""
  if not np.all(valid):
    raise SettingError(f'{name} is {value[~valid].ravel()[0]:g}; it {must}.')
  return value


def result(value: Numbers) -> Any:
  """A Python number for a scalar, else the array."""
  return float(value) if np.ndim(value) == 0 else np.asarray(value)
