"""Reads gin files and bindings; a mistake is one line that names the thing and the mend.

Beyond what gin checks, a setting that the run would ignore is an error: what a run
uses is followed from `main.run` through the references, before anything is loaded.
A configurable that calls others itself, without a reference in the configuration,
lists their names in an attribute `uses`.
"""

import difflib
import inspect
import re
import tokenize

import gin
from etils import epath

from specdec_jax.errors import ConfigError
from specdec_jax.paths import gin_search_paths

# The parts of gin without a public name; nothing else in the project looks inside it.
_bindings = lambda: gin.config._CONFIG  # {(scope, selector): {parameter: value}}
_registry = lambda: gin.config._REGISTRY

_MACRO, _CONSTANT = 'gin.macro', 'gin.constant'
_searched = set()

# gin's second reader takes folders for Python packages and fails on those that are none.
del gin.config._FILE_READERS[1:]
gin.config.register_file_reader(lambda path: epath.Path(path).open(),
                                lambda path: '://' in path and epath.Path(path).exists())


def parse(gin_files, bindings=(), search_paths=()) -> None:
  """Parses files in order, then bindings ('name = value'), checks all and locks the config.

  Files and what they include are looked for in the current directory, in
  search_paths, and where the package keeps its own.
  """
  for path in [*search_paths, *map(str, gin_search_paths())]:
    if path not in _searched:
      gin.add_config_file_search_path(path)
      _searched.add(path)
  gin.clear_config()
  for file in gin_files:
    _parse(lambda: gin.parse_config_file(file), file=file)
  for binding in bindings:
    _parse(lambda: gin.parse_config([binding]), binding)
  check()
  _parse(gin.finalize)


def check(root: str = 'main') -> None:
  """ConfigError for a missing required setting, an undefined macro or an unused setting."""
  used, missing = _reach(root)
  if missing:
    raise ConfigError('; '.join(_required(name, where) for name, where in missing.items()) + '.')
  unused = [_name(*key, parameter) for key, parameters in _bindings().items()
            for parameter in parameters if (*key, parameter) not in used]
  if unused:
    known = sorted({_name(*key) for key in used})
    raise ConfigError(f'set, but not used by this run: {", ".join(sorted(unused))}; remove '
                      + ('it' + _suggestion(unused[0], known) if len(unused) == 1 else 'them.'))


def flat() -> dict[str, str]:
  """Every binding as text, e.g. {'decode.gamma': '7', 'TARGET': "'embedded:ende/target'"}."""
  return {_name(*key, parameter): repr(value) for key, parameters in _bindings().items()
          for parameter, value in parameters.items()}


def _parse(call, binding=None, file=None):
  try:
    call()
  except (SyntaxError, tokenize.TokenError) as e:
    if binding:
      name, value = binding.split(' = ', 1)
      raise ConfigError(f"--gin.{name}={value}: not a gin value; a text needs quotes that the "
                        f'shell leaves: --gin.{name}="\'{value}\'".') from None
    file = getattr(e, 'filename', None) or f'{file} or a file that it includes'
    line = getattr(e, 'lineno', None) or e.args[1][0]
    reason = e.args[0].splitlines()[0].rstrip('.')
    raise ConfigError(f'{file}, line {line}: not gin ({reason}).') from None
  except (ValueError, RuntimeError, OSError, ImportError) as e:
    raise ConfigError(_explain(str(e), binding)) from None


def _explain(message: str, binding: str | None) -> str:
  """gin's message in one line, with the place and the nearest name that exists."""
  first = message.strip().splitlines()[0].rstrip('.')
  place = re.search(r'In (?:file "([^"]*)",|bindings string) line (\d+)', message)
  if binding:
    first = f'--gin.{binding.replace(" = ", "=", 1)}: {first}'
  elif place:
    first += f' (in {place[1]}, line {place[2]})'
  unknown = re.search(r"[Nn]o configurable matching(?: reference)? '@?([^'()]+)", message)
  if unknown:
    selectors = [selector.split('.')[-1] for selector, _ in _registry().items()]
    return first + _suggestion(unknown[1].split('/')[-1], selectors)
  parameter = re.search(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'", message)
  if parameter:
    signature = inspect.signature(gin.get_configurable(parameter[1]))
    return f"{first}; it has {', '.join(signature.parameters)}."
  return first + '.'


def _suggestion(name: str, known) -> str:
  near = difflib.get_close_matches(name, known, n=1)
  return f"; did you mean '{near[0]}'?" if near else '.'


def _required(name: str, where: str) -> str:
  mend = '--output_dir=DIR' if name == 'OUTPUT_DIR' else f'--gin.{name}=VALUE or in a gin file'
  return f'{name} is required (for {where}): set it with {mend}'


def _name(scope: str, selector: str, parameter: str = '') -> str:
  """As a user writes it: 'TARGET' for a macro, else 'scope/name.parameter'."""
  if selector == _MACRO:
    return scope
  scope = scope + '/' if scope else ''
  return scope + _registry().minimal_selector(selector) + ('.' + parameter if parameter else '')


def _reach(root: str):
  """What a call of `root` reads: used (scope, selector, parameter) and {missing name: for what}."""
  used, missing, seen = set(), {}, set()

  def visit(scopes, selector, where):
    if (scopes, selector) in seen:
      return
    seen.add((scopes, selector))
    effective = {}
    for depth in range(len(scopes) + 1):  # an inner scope's binding hides an outer one
      scope = '/'.join(scopes[:depth])
      for parameter, value in _bindings().get((scope, selector), {}).items():
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
          visit(tuple(reference.scopes) or scopes, reference.configurable.selector, name)
    wrapped = _registry()[selector].wrapped
    for parameter in inspect.signature(wrapped).parameters.values():
      if parameter.default is gin.REQUIRED and parameter.name not in effective:
        missing[_name('/'.join(scopes), selector, parameter.name)] = 'this run'
    for name in getattr(wrapped, 'uses', ()):
      visit(scopes, _registry().get_match(name).selector, selector)

  visit((), _registry().get_match(root).selector, root)
  return used, missing
