"""What a gin file says of a model's configuration, read beside gin: a running configuration stays as it is."""

import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from specdec_jax.checkpoints.storage import first_line
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.locations import absolute
from specdec_jax.files.reading import read_text
from specdec_jax.models.known import Config, known_fields
from specdec_jax.paths import gin_search_paths


def fields_from_gin(gin_file: str | os.PathLike, kind: type[Config]) -> dict[str, Any]:
  """What a gin file such as gin/models/t5_1_1_xxl.gin sets of T5Config or GPT2Config, {field: value}.

  Fields of a `name` are among them. Other settings of the file, and those in scopes, are passed over.

  Raises:
    CheckpointError: no gin, no such field, or nothing of the configuration is set.
  """
  values, macros = {}, {}
  for statement in _statements(os.fspath(gin_file), ()):
    selector = statement.selector.split('.')[-1]
    if not statement.arg_name:
      macros[statement.selector] = statement.value
    elif selector == kind.__name__ and not statement.scope:
      values[statement.arg_name] = statement.value
  if not values:
    raise CheckpointError(f"gin file '{gin_file}' sets nothing of {kind.__name__}; see gin/models for examples.")
  known = {'name', *(field.name for field in dataclasses.fields(kind))}
  if unknown := sorted(values.keys() - known):
    raise CheckpointError(f"gin file '{gin_file}': {kind.__name__} has no {', '.join(unknown)}; it has "
                          f"{', '.join(sorted(known))}.")
  values = {name: _resolved(value, macros, f"gin file '{gin_file}': {kind.__name__}.{name}")
            for name, value in values.items()}
  name = values.pop('name', None)
  try:
    return values if name is None else {**known_fields(name, kind, f'{kind.__name__}.name'), **values}
  except SettingError as e:
    raise CheckpointError(f"gin file '{gin_file}': {e}") from e


@dataclasses.dataclass(frozen=True)
class _Macro:
  name: str


@dataclasses.dataclass(frozen=True)
class _Reference:
  name: str


def _statements(name: str, including: tuple[str, ...]) -> Iterator[Any]:
  """gin's binding statements of a file and of what it includes, in order."""
  from gin import config_parser

  class Delegate(config_parser.ParserDelegate):
    def configurable_reference(self, scoped_configurable_name, evaluate):
      return _Reference(scoped_configurable_name)

    def macro(self, macro_name):
      return _Macro(macro_name)

  path = _find(name)
  if path in including:
    raise CheckpointError(f"gin file '{name}' includes itself; remove that include.")
  parser = config_parser.ConfigParser(read_text(absolute(path), 'gin file'), Delegate())
  try:
    for statement in parser:
      if isinstance(statement, config_parser.IncludeStatement):
        yield from _statements(statement.filename, (*including, path))
      elif isinstance(statement, config_parser.BindingStatement):
        yield statement
  except SyntaxError as e:
    raise CheckpointError(f"gin file '{name}': {first_line(e)}") from e


def _find(name: str) -> str:
  candidates = [name, *(os.path.join(root, name) for root in map(str, gin_search_paths()))]
  found = next((c for c in candidates if absolute(c).exists()), None)
  if found is None:
    raise CheckpointError(f"There is no gin file '{name}'.")
  return os.path.abspath(found) if '://' not in found else found


def _resolved(value: Any, macros: dict[str, Any], where: str) -> Any:
  """The value with macros replaced."""
  if isinstance(value, _Macro):
    if value.name not in macros:
      raise CheckpointError(f'{where} is %{value.name}, which the file does not set.')
    return _resolved(macros[value.name], macros, where)
  if isinstance(value, _Reference):
    raise CheckpointError(f'{where} is @{value.name}; it must be a value.')
  if isinstance(value, (list, tuple)):
    return type(value)(_resolved(v, macros, where) for v in value)
  return value
