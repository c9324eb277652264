"""The fields of a config.json, each taken with a check: a wrong one is refused with its file, name and value."""

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from specdec_jax import checks
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files import json_files

T = TypeVar('T')
_REQUIRED: Any = object()


class Fields:
  """What a JSON file holds.

  Attributes:
    path: of the file, for messages.
  """

  def __init__(self, path: str | os.PathLike, content: Mapping[str, Any], aliases: Mapping[str, str] | None = None):
    """aliases: {another name of a field: its name}, as transformers' attribute_map."""
    self.path = os.fspath(path)
    self._content = {name: value for name, value in content.items() if value is not None}
    for alias, name in (aliases or {}).items():
      if alias in self._content:
        value = self._content.setdefault(name, self._content[alias])
        if value != self._content[alias]:
          raise self.error(f'{name} is {checks.shown(value)} and {alias}, another name of it, '
                           f'{checks.shown(self._content[alias])}')

  @classmethod
  def read(cls, path: str | os.PathLike, aliases: Mapping[str, str] | None = None) -> 'Fields':
    """Reads a file; null counts as not there."""
    return cls(path, json_files.read_json(path, 'configuration'), aliases)

  def __contains__(self, name: str) -> bool:
    return name in self._content

  def get(self, name: str) -> Any:
    """The value as it stands, or None."""
    return self._content.get(name)

  def whole(self, name: str, default: int = _REQUIRED, least: int = 1, most: int | None = None) -> int:
    """A whole number."""
    return self._take(name, default, lambda n, v: checks.whole(n, v, least, most))

  def real(self, name: str, default: float = _REQUIRED, least: float = 0.0, most: float = 1.0) -> float:
    """A number in [least, most]."""
    return self._take(name, default, lambda n, v: checks.real(
        n, v, lambda x: least <= x <= most, f'in [{least:g}, {most:g}]'))

  def flag(self, name: str, default: bool) -> bool:
    """True or False."""
    return self._take(name, default, checks.flag)

  def text(self, name: str, default: str) -> str:
    """A text."""
    return self._take(name, default, lambda n, v: checks.text(n, v, empty=False))

  def token(self, name: str, vocab_size: int) -> int | None:
    """An id of the vocabulary; None where the field is not there."""
    return self._take(name, None, lambda n, v: checks.whole(n, v, 0, vocab_size - 1, _HINT))

  def tokens(self, name: str, vocab_size: int) -> tuple[int, ...]:
    """An id or a list of ids; empty where the field is not there."""
    item = lambda n, v: checks.whole(n, v, 0, vocab_size - 1, _HINT)
    return self._take(name, (), lambda n, v: (
        checks.sequence(n, v, item) if isinstance(v, list) else (item(n, v),)))

  def require(self, name: str, usual: Any, why: str) -> None:
    """Refuses a field with another value than the usual one."""
    if name in self and self._content[name] != usual:
      raise self.error(f'{name} is {checks.shown(self._content[name])}; {why}')

  def error(self, reason: str) -> CheckpointError:
    """An error that names the file."""
    return CheckpointError(f"'{self.path}': {reason.rstrip('.')}.")

  def _take(self, name: str, default: T, check: Callable[[str, Any], T]) -> T:
    if name not in self:
      if default is _REQUIRED:
        raise CheckpointError(f"'{self.path}' has no '{name}'.")
      return default
    try:
      return check(name, self._content[name])
    except SettingError as e:
      raise self.error(str(e)) from e


_HINT = ', an id of the vocabulary'
