"""Reads gin files and bindings; a mistake is one line that names the thing and the mend.

Beyond what gin checks, a setting that the run would ignore is an error: what a run
uses is followed from `main.run` through the references, before anything is loaded.
Only public names of gin are used.
"""

import difflib
import inspect
import re
import tokenize
from collections.abc import Iterable, Sequence

import gin

from specdec_jax.cli import bindings as bindings_lib, gin_files as files_lib, t5x_names, uses as uses_lib, values
from specdec_jax.errors import ConfigError


def parse(gin_files: Iterable[str], bindings: Sequence[str] = (), search_paths: Sequence[str] = ()) -> None:
  """Parses files in order, then bindings ('name = value'), checks all and locks the config.

  Files and what they include are looked for in the current directory, in
  search_paths, and where the package keeps its own.
  """
  bindings_lib.clear()
  for file in gin_files:
    _parse(files_lib.read(file, search_paths))
  for binding in bindings:
    _parse_binding(binding)
  check()
  gin.finalize()


def check(root: str = 'main') -> None:
  """UserError for a missing required setting, an undefined macro, an unused setting or a wrong value."""
  uses = uses_lib.of(root)
  unused = [bindings_lib.name(*key, parameter) for key, parameters in bindings_lib.every().items()
            for parameter in parameters if (*key, parameter) not in uses.settings]
  hints = ''.join(map(t5x_names.sentence, sorted(unused)))
  if uses.missing:
    raise ConfigError('; '.join(_required(name, where) for name, where in uses.missing.items()) + '.' + hints)
  values.check(uses)
  if unused:
    known = sorted({bindings_lib.name(*key) for key in uses.settings})
    raise ConfigError(f'set, but not used by this run: {", ".join(sorted(unused))}; remove '
                      + ('it' + _suggestion(unused[0], known) if len(unused) == 1 else 'them.') + hints)


def flat() -> dict[str, str]:
  """Every binding as text, e.g. {'decode.gamma': '7', 'TARGET': "'embedded:ende/target'"}."""
  return {bindings_lib.name(*key, parameter): repr(value) for key, parameters in bindings_lib.every().items()
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
    line = source.at((e.lineno if isinstance(e, SyntaxError) else e.args[1][0]) or 1)
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
    return first + _suggestion(unknown[1].split('/')[-1], bindings_lib.registered())
  parameter = re.search(r"Configurable '([^']+)' doesn't have a parameter named '([^']+)'", message)
  if parameter:
    signature = inspect.signature(gin.get_configurable(parameter[1]))
    return f"{first}; it has {', '.join(signature.parameters)}." + t5x_names.sentence(parameter[2])
  return first + '.'


def _suggestion(name: str, known: Sequence[str]) -> str:
  near = difflib.get_close_matches(name, known, n=1)
  return f"; did you mean '{near[0]}'?" if near else '.'


def _required(name: str, where: str) -> str:
  mend = '--output_dir=DIR' if name == 'OUTPUT_DIR' else f'--gin.{name}=VALUE or in a gin file'
  return f'{name} is required (for {where}): set it with {mend}'
