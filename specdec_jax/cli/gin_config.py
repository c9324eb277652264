"""Reads gin files and bindings; a mistake is one line that names the thing and the mend.

Beyond what gin checks, a setting that the run would ignore is an error: what a run
uses is followed from `main.run` through the references, before anything is loaded.
Only public names of gin are used.
"""

import difflib
import inspect
import re
import tokenize
from collections.abc import Callable, Iterable, Sequence

import gin

from specdec_jax.cli import gin_files as files_lib, t5x_names
from specdec_jax.errors import ConfigError

_MACRO, _CONSTANT = 'gin.macro', 'gin.constant'
_needs: dict[str, tuple[str, ...]] = {}  # of each registered name, see `register`
_shown: list[dict] = []  # see `_all_bindings`


@gin.config.register_finalize_hook
def _see(bindings: dict) -> None:
  _shown[:] = [bindings]


def register(function: Callable, needs: Iterable[str] = ()) -> None:
  """Makes a function or class a configurable of gin, by its own name.

  Args:
    function: what to register.
    needs: names of configurables that it calls itself, instead of taking them as settings: their
      settings are used where it is.
  """
  gin.external_configurable(function)
  _needs[function.__name__] = tuple(needs)


def parse(gin_files: Iterable[str], bindings: Sequence[str] = (), search_paths: Sequence[str] = ()) -> None:
  """Parses files in order, then bindings ('name = value'), checks all and locks the config.

  Files and what they include are looked for in the current directory, in
  search_paths, and where the package keeps its own.
  """
  gin.clear_config()
  gin.finalize()  # see `_all_bindings`
  gin.clear_config()
  for file in gin_files:
    _parse(files_lib.read(file, search_paths))
  for binding in bindings:
    _parse_binding(binding)
  check()
  gin.finalize()


def check(root: str = 'main') -> None:
  """ConfigError for a missing required setting, an undefined macro or an unused setting."""
  used, missing = _reach(root)
  unused = [_name(*key, parameter) for key, parameters in _all_bindings().items()
            for parameter in parameters if (*key, parameter) not in used]
  hints = ''.join(f' {hint}' for name in sorted(unused) if (hint := t5x_names.hint(name)))
  if missing:
    raise ConfigError('; '.join(_required(name, where) for name, where in missing.items()) + '.' + hints)
  if unused:
    known = sorted({_name(*key) for key in used})
    raise ConfigError(f'set, but not used by this run: {", ".join(sorted(unused))}; remove '
                      + ('it' + _suggestion(unused[0], known) if len(unused) == 1 else 'them.') + hints)


def flat() -> dict[str, str]:
  """Every binding as text, e.g. {'decode.gamma': '7', 'TARGET': "'embedded:ende/target'"}."""
  return {_name(*key, parameter): repr(value) for key, parameters in _all_bindings().items()
          for parameter, value in parameters.items()}


def _parse_binding(binding: str) -> None:
  name, equals, value = (part.strip() for part in binding.partition('='))
  if not binding.startswith(('include ', 'import ', 'from ')) and not (name and equals and value):
    raise ConfigError(f"--gin_bindings={binding}: not a binding; write --gin_bindings='NAME = VALUE' or "
                      '--gin.NAME=VALUE.')
  flag = f'--gin.{name}={value}'
  try:
    _parse(files_lib.Source([files_lib.Line(binding + '\n', '', 1)]))
  except (SyntaxError, tokenize.TokenError):
    raise ConfigError(f'{flag}: not a gin value; a text needs quotes that the shell leaves: '
                      f'--gin.{name}="\'{value}\'".') from None
  except ConfigError as e:
    raise ConfigError(f'{flag}: {e}') from None


def _parse(source: files_lib.Source) -> None:
  """Gives gin a text; what it finds wrong becomes a ConfigError with the file and line.

  Of a text without a file only syntax errors are left as they are.
  """
  try:
    gin.parse_config(source)
  except (SyntaxError, tokenize.TokenError) as e:
    line = source.at(e.lineno if isinstance(e, SyntaxError) else e.args[1][0])
    if line is None or not line.file:
      raise
    reason = str(e.args[0]).splitlines()[0].rstrip('.')
    if reason.startswith('malformed node'):
      reason = 'the value is no literal, @reference or %MACRO; a text needs quotes'
    raise ConfigError(f'{line.place}: not gin ({reason}).') from None
  except Exception as e:  # pylint: disable=broad-except
    place = re.search(r'\n  In (?:file .+|bindings string) line (\d+)', str(e))
    line = source.at(int(place[1])) if place else None
    imports = line is not None and line.text.startswith(('import ', 'from '))
    if not isinstance(e, ImportError if imports else (ValueError, KeyError, LookupError, RuntimeError, NameError,
                                                      AttributeError, ImportError)):
      raise
    raise ConfigError(_explain(e, line)) from None


def _explain(error: Exception, line: files_lib.Line | None) -> str:
  """gin's message in one line, with the place and the nearest name that exists."""
  message = str(error).strip().strip('"')
  first = message.replace('\\n', '\n').splitlines()[0].rstrip('."')
  if line is not None and line.file:
    first += f' (in {line.place})'
  unknown = re.search(r"[Nn]o configurable matching(?: reference)? '@?([^'()]+)", message)
  if unknown:
    return first + _suggestion(unknown[1].split('/')[-1], sorted(_needs))
  parameter = re.search(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'", message)
  if parameter:
    signature = inspect.signature(gin.get_configurable(parameter[1]))
    return f"{first}; it has {', '.join(signature.parameters)}."
  return first + '.'


def _suggestion(name: str, known: Sequence[str]) -> str:
  near = difflib.get_close_matches(name, known, n=1)
  return f"; did you mean '{near[0]}'?" if near else '.'


def _required(name: str, where: str) -> str:
  mend = '--output_dir=DIR' if name == 'OUTPUT_DIR' else f'--gin.{name}=VALUE or in a gin file'
  return f'{name} is required (for {where}): set it with {mend}'


def _all_bindings() -> dict[tuple[str, str], dict]:
  """{(scope, selector): {parameter: value}} of the whole configuration.

  gin shows it to finalize hooks alone, and its own hooks, which come before ours, refuse a configuration in
  which something is missing. So `parse` finalizes an empty one first; the dictionary that the hook is given
  then is the one that is filled afterwards.
  """
  return _shown[-1]


def _name(scope: str, selector: str, parameter: str = '') -> str:
  """As a user writes it: 'TARGET' for a macro, else 'scope/name.parameter'."""
  if selector == _MACRO:
    return scope
  scope = scope + '/' if scope else ''
  return scope + _shortest(selector) + ('.' + parameter if parameter else '')


def _shortest(selector: str) -> str:
  """The end of a full selector by which gin finds it: 'decode' of 'specdec_jax.runs.decode.decode'."""
  parts = selector.split('.')
  for start in range(len(parts) - 1, 0, -1):
    name = '.'.join(parts[start:])
    try:
      if _reference(name).configurable.selector == selector:
        return name
    except KeyError:  # several end like this
      continue
  return selector


def _reference(name: str) -> gin.config.ConfigurableReference:
  return gin.config.parse_value('@' + name)


def _reach(root: str) -> tuple[set[tuple[str, str, str]], dict[str, str]]:
  """What a call of `root` reads: used (scope, selector, parameter) and {missing name: for what}."""
  used, missing, seen = set(), {}, set()

  def visit(scopes, configurable, where, open_calls):
    selector = configurable.selector
    call = (scopes, selector)
    if call in open_calls:
      names = [_name('/'.join(s), c) for s, c in (*open_calls[open_calls.index(call):], call)]
      raise ConfigError(f"{names[0]} needs itself ({' -> '.join(names)}); break the circle.")
    if call in seen:
      return
    seen.add(call)
    effective = {}
    for depth in range(len(scopes) + 1):  # an inner scope's binding hides an outer one
      scope = '/'.join(scopes[:depth])
      for parameter, value in _all_bindings().get((scope, selector), {}).items():
        effective[parameter] = scope, value
    if selector == _MACRO and not effective:
      missing['/'.join(scopes)] = where
    for parameter, (scope, value) in effective.items():
      used.add((scope, selector, parameter))
      name = _name(scope, selector, parameter)
      for reference in gin.config.iterate_references(value):
        if reference.configurable.selector == _CONSTANT:
          if reference.scoped_configurable_fn() is gin.REQUIRED:
            missing[name] = where if selector == _MACRO else 'this run'
        else:
          visit(tuple(reference.scopes) or scopes, reference.configurable, name,
                (*open_calls, call) if reference.evaluate else ())
    for parameter in inspect.signature(configurable.wrapped).parameters.values():
      if parameter.default is gin.REQUIRED and parameter.name not in effective:
        missing[_name('/'.join(scopes), selector, parameter.name)] = 'this run'
    for name in _needs.get(configurable.wrapped.__name__, ()):
      visit(scopes, _reference(name).configurable, selector, ())

  visit((), _reference(root).configurable, 'this run', ())
  return used, missing
