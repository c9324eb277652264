"""gin's configurables and bindings, as its public names give them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gin

MACRO, CONSTANT = 'gin.macro', 'gin.constant'  # selectors of what %NAME calls

Scopes = tuple[str, ...]  # from the outermost in

_registered: dict[str, tuple[tuple[str, ...], bool]] = {}  # name: (needs, light), see `register`
_shown: list[dict] = []  # see `every`


def register(function: Callable, needs: Iterable[str] = (), light: bool = False) -> None:
  """Makes a function or class a configurable of gin, by its own name.

  Args:
    function: what to register.
    needs: names of configurables that it calls itself, instead of taking them as settings: their
      settings are used where it is.
    light: it reads no file and no device, so that it may be called to check its settings.
  """
  gin.external_configurable(function)
  _registered[function.__name__] = tuple(needs), light


def registered() -> list[str]:
  """The names that `register` was given."""
  return sorted(_registered)


def needs(configurable: gin.config.Configurable) -> tuple[str, ...]:
  return _registered.get(configurable.wrapped.__name__, ((), False))[0]


def is_light(configurable: gin.config.Configurable) -> bool:
  return _registered.get(configurable.wrapped.__name__, ((), False))[1]


@gin.config.register_finalize_hook
def _see(bindings: dict) -> None:
  _shown[:] = [bindings]


def clear() -> None:
  """Forgets the configuration, the registered names aside."""
  gin.clear_config()
  gin.finalize()  # see `every`
  gin.clear_config()


def every() -> dict[tuple[str, str], dict[str, Any]]:
  """{(scope, selector): {parameter: value}} of the whole configuration.

  gin shows it to finalize hooks alone, and its own hooks, which come before ours, refuse a configuration in
  which something is missing. So `clear` finalizes an empty one; the dictionary that the hook is given
  then is the one that is filled afterwards.
  """
  return _shown[-1]


def effective(scopes: Scopes, selector: str) -> dict[str, tuple[str, Any]]:
  """{parameter: (its scope, value)} of a call in some scopes: an inner one's binding hides an outer one's."""
  found = {}
  for depth in range(len(scopes) + 1):
    scope = '/'.join(scopes[:depth])
    for parameter, value in every().get((scope, selector), {}).items():
      found[parameter] = scope, value
  return found


def reference(name: str) -> gin.config.ConfigurableReference:
  """What @NAME stands for; KeyError where several configurables have the name."""
  return gin.config.parse_value('@' + name)


def is_reference(value: Any) -> bool:
  return isinstance(value, gin.config.ConfigurableReference)


def references(value: Any) -> Iterable[gin.config.ConfigurableReference]:
  """Those in a value, as deep as they are."""
  return gin.config.iterate_references(value)


def is_macro(ref: gin.config.ConfigurableReference) -> bool:
  return ref.configurable.selector == MACRO


def is_constant(ref: gin.config.ConfigurableReference) -> bool:
  return ref.configurable.selector == CONSTANT


def is_required(value: Any) -> bool:
  """Whether it is %gin.REQUIRED."""
  return is_reference(value) and is_constant(value) and value.scoped_configurable_fn() is gin.REQUIRED


def scopes_of(ref: gin.config.ConfigurableReference, outer: Scopes) -> Scopes:
  """In which scopes a reference is called: its own, or those of what holds it."""
  return tuple(ref.scopes) or outer


def name(scope: str, selector: str, parameter: str = '') -> str:
  """As a user writes it: 'TARGET' for a macro, else 'scope/name.parameter'."""
  if selector == MACRO:
    return scope
  return (scope + '/' if scope else '') + _shortest(selector) + ('.' + parameter if parameter else '')


def name_of_call(scopes: Sequence[str], selector: str) -> str:
  return name('/'.join(scopes), selector)


def _shortest(selector: str) -> str:
  """The end of a full selector by which gin finds it: 'decode' of 'specdec_jax.runs.decode.decode'."""
  parts = selector.split('.')
  for start in range(len(parts) - 1, 0, -1):
    end = '.'.join(parts[start:])
    try:
      if reference(end).configurable.selector == selector:
        return end
    except KeyError:  # several end like this
      continue
  return selector
