"""What a run reads of a configuration, followed from its call through the references."""

import dataclasses
import inspect

import gin

from specdec_jax.cli import bindings
from specdec_jax.errors import ConfigError


@dataclasses.dataclass
class Uses:
  """What a call reaches.

  Attributes:
    calls: (scopes, configurable) of each that is called or handed on.
    settings: (scope, selector, parameter) of each binding that is read.
    missing: {name of a required setting without a value: what needs it}.
  """

  calls: list[tuple[bindings.Scopes, gin.config.Configurable]] = dataclasses.field(default_factory=list)
  settings: set[tuple[str, str, str]] = dataclasses.field(default_factory=set)
  missing: dict[str, str] = dataclasses.field(default_factory=dict)


def of(root: str) -> Uses:
  """What a call of `root` reads; ConfigError where something needs itself."""
  found = Uses()
  _visit(found, (), bindings.reference(root).configurable, 'this run', (), called_with_settings_alone=False)
  return found


def _visit(found: Uses, scopes, configurable, where, open_calls, called_with_settings_alone) -> None:
  selector = configurable.selector
  call = (scopes, selector)
  if call in open_calls:
    names = [bindings.name_of_call(*c) for c in (*open_calls[open_calls.index(call):], call)]
    raise ConfigError(f"{names[0]} needs itself ({' -> '.join(names)}); break the circle.")
  effective = bindings.effective(scopes, selector)
  if called_with_settings_alone or selector == bindings.MACRO:
    _note_missing(found, scopes, configurable, where, effective, (inspect.Parameter.empty, gin.REQUIRED))
  else:
    _note_missing(found, scopes, configurable, where, effective, (gin.REQUIRED,))
  if (scopes, configurable) in found.calls:
    return
  found.calls.append((scopes, configurable))
  for parameter, (scope, value) in effective.items():
    found.settings.add((scope, selector, parameter))
    name = bindings.name(scope, selector, parameter)
    if bindings.is_required(value):
      found.missing[name] = where if selector == bindings.MACRO else 'this run'
    for ref in bindings.references(value):
      if not bindings.is_constant(ref):
        _visit(found, bindings.scopes_of(ref, scopes), ref.configurable, name,
               (*open_calls, call) if ref.evaluate else (), called_with_settings_alone=ref.evaluate)
  for needed in bindings.needs(configurable):
    _visit(found, scopes, bindings.reference(needed).configurable, selector, (), called_with_settings_alone=False)


def _note_missing(found, scopes, configurable, where, effective, unset) -> None:
  """Notes the parameters that have no value: no binding, and none of their own."""
  if configurable.selector == bindings.MACRO:
    if not effective:
      found.missing['/'.join(scopes)] = where
    return
  for parameter in inspect.signature(configurable.wrapped).parameters.values():
    varying = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    if not varying and parameter.default in unset and parameter.name not in effective:
      found.missing[bindings.name('/'.join(scopes), configurable.selector, parameter.name)] = 'this run'
