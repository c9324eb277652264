"""Modules of a package that are imported when they are first asked for, and that dir() shows before."""

import importlib
import importlib.util
import pkgutil
import sys
from typing import Any


def show_modules(package: str) -> None:
  """Gives a package __getattr__ and __dir__ over its modules, in a way that a type checker does not see.

  Args:
    package: its full name; it is being imported. What is in its __all__ is shown as well.
  """
  module = sys.modules[package]
  setattr(module, '__getattr__', lambda name: attribute(package, name))  # noqa: B010
  setattr(module, '__dir__', lambda: names(package))  # noqa: B010


def attribute(package: str, name: str) -> Any:
  """The module of that name in a package; AttributeError where there is none."""
  if name.startswith('_') or importlib.util.find_spec(f'{package}.{name}') is None:
    raise AttributeError(f"module '{package}' has no attribute '{name}'")
  return importlib.import_module(f'{package}.{name}')


def names(package: str) -> list[str]:
  """What dir() shows of a package: its public names and its modules."""
  module = sys.modules[package]
  return sorted({*(name for name in vars(module) if name.startswith('__')), *getattr(module, '__all__', ()),
                 *(found.name for found in pkgutil.iter_modules(module.__path__))})
