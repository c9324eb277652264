"""Checks of a function's arguments, declared above it: type and range of each, by the setting's name.

    @arguments.checked(gamma=optional(at_least(1)), prefix=text)
    def decode(output_dir, gamma=None, prefix=''):

A wrong argument is `decode.gamma is '4'; it must be a whole number of at least 1.` The command line makes
the same checks of a configuration before anything is loaded.
"""

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from specdec_jax import checks, paths

Check = Callable[[str, Any], Any]  # of a setting's name and value: the value as it is used, or SettingError

_declared: dict[Callable, Mapping[str, Check]] = {}


def checked(**of_arguments: Check) -> Callable[[Callable], Callable]:
  """For a function whose arguments are to be checked when it is called; those left to their defaults are not."""
  def decorate(function: Callable) -> Callable:
    signature = inspect.signature(function)
    unknown = set(of_arguments) - set(signature.parameters)
    if unknown:
      raise TypeError(f'{function.__name__} has no argument {", ".join(sorted(unknown))} to check.')

    @functools.wraps(function)
    def with_checks(*args, **kwargs):
      bound = signature.bind(*args, **kwargs)
      for name, check in of_arguments.items():
        if name in bound.arguments:
          bound.arguments[name] = check(f'{function.__name__}.{name}', bound.arguments[name])
      return function(*bound.args, **bound.kwargs)

    setattr(with_checks, '__signature__', signature)  # noqa: B010 (mypy knows no such attribute)
    _declared[with_checks] = of_arguments
    return with_checks

  return decorate


def declared(function: Callable) -> Mapping[str, Check]:
  """The checks of a function's arguments; none where it was not made by `checked`."""
  return _declared.get(function, {})


def at_least(least: int) -> Check:
  return lambda name, value: checks.whole(name, value, least)


def between(least: int, most: int) -> Check:
  return lambda name, value: checks.whole(name, value, least, most)


def number(allowed: Callable[[float], bool], must: str) -> Check:
  """See `checks.real`."""
  return lambda name, value: checks.real(name, value, allowed, must)


def text_of(choices: Collection[str]) -> Check:
  return lambda name, value: checks.choice(name, value, choices)


def instance(kinds: type | tuple[type, ...], what: str) -> Check:
  """See `checks.instance`."""
  return lambda name, value: checks.instance(name, value, kinds, what)


def optional(check: Check) -> Check:
  """None, or what `check` allows."""
  return lambda name, value: None if value is None else check(name, value)


def tuple_of(item: Check, empty: bool = False) -> Check:
  """A tuple or list, each item as `item` allows."""
  return lambda name, value: checks.sequence(name, value, item, empty)


flag, text = checks.flag, checks.text
probability = number(lambda x: 0 <= x <= 1, 'in [0, 1]')
positive = number(lambda x: 0 < x < float('inf'), 'above 0')
not_negative = number(lambda x: 0 <= x < float('inf'), 'of at least 0')


def path(name: str, value: Any) -> str | os.PathLike:
  """A path as the user writes it; what 'embedded:' names must be there."""
  paths.resolve(value, name)
  return value


def function(name: str, value: Any) -> Callable:
  return value if callable(value) else checks.instance(name, value, (), 'a function: @NAME, without brackets')


def iterable(name: str, value: Any) -> Iterable:
  """Something to go through, such as a list; no text and no number."""
  fits = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
  return value if fits else checks.instance(name, value, (), 'a list, such as @read_examples() makes')
