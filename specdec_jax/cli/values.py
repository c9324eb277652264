"""Checks of a configuration's values before anything is loaded: each as its function has declared it."""

import copy
from typing import Any

import gin

from specdec_jax import arguments
from specdec_jax.cli import bindings
from specdec_jax.cli.ends import one_line
from specdec_jax.cli.uses import Uses
from specdec_jax.errors import SettingError, UserError


def check(uses: Uses) -> None:
  """SettingError for a value that a configurable which a run calls would refuse.

  What a value refers to is called where that loads nothing, such as @Sampling(); values that load
  something, such as @load_model(), are left to the run.
  """
  for scopes, configurable in reversed(uses.calls):  # a part before what it is a part of
    checks = arguments.declared(configurable.wrapped)
    for parameter, (scope, value) in bindings.effective(scopes, configurable.selector).items():
      if (parameter in checks or bindings.is_reference(value)) and _loads_nothing(value, scopes):
        name = _origin(bindings.name(scope, configurable.selector, parameter), value)
        known = _called(value, scopes)
        if parameter in checks:
          checks[parameter](name, known)


def _loads_nothing(value: Any, scopes: bindings.Scopes) -> bool:
  for ref in bindings.references(value):
    if bindings.is_constant(ref) or not ref.evaluate:
      continue
    if not (bindings.is_macro(ref) or bindings.is_light(ref.configurable)):
      return False
    inner = bindings.scopes_of(ref, scopes)
    bound = bindings.effective(inner, ref.configurable.selector)
    if not all(_loads_nothing(v, inner) for _, v in bound.values()):
      return False
  return True


def _origin(name: str, value: Any) -> str:
  """The setting that a value stands in: that of the last macro, where it is %NAME."""
  while bindings.is_reference(value) and bindings.is_macro(value):
    name = '/'.join(value.scopes)
    (_, value), = bindings.effective(tuple(value.scopes), bindings.MACRO).values()
  return name


def _called(value: Any, scopes: bindings.Scopes) -> Any:
  """A value with its references called, as gin does it for a call in some scopes."""
  try:
    with gin.config_scope(list(scopes) or None):
      return copy.deepcopy(value)
  except UserError as e:
    raise SettingError(one_line(e)) from None
