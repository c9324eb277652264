"""`specdec_jax decode --target=DIR ...`: a run put together from the blocks of gin/, its settings as flags.

A subcommand is only another spelling of `python -m specdec_jax.main --gin_file=...`: it is translated into that
command's flags. With a --gin_file of one's own no block is added, and the flags override its settings.
"""

import ast
import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Sequence
from typing import Any

from specdec_jax.cli import gin_files, t5x_names
from specdec_jax.errors import SettingError
from specdec_jax.runs.registry import RUNS, Run

_PASSED_ON = ('gin_file', 'gin_bindings', 'gin_search_paths', 'output_dir', 'traceback')
_DRAFTERS = ('model', 'heads', 'bigram', 'unigram', 'lookup', 'random', 'none')
_SAMPLING = ('temperature', 'top_k', 'top_p')
_MACROS = {'task': 'MIXTURE_OR_TASK_NAME', 'task_module': 'MIXTURE_OR_TASK_MODULE'}  # others by their own name
_OTHERS = {'limit': ('read_examples.limit', 'task_examples.limit'), 'dtype': ('load_model.dtype',),
           'reference': ('read_examples.reference_field',), 'targets': ('read_examples.targets_field',),
           'label': ('read_examples.label_field',)}
_MACRO = re.compile(r'([A-Z][A-Z0-9_]*) *=')


@dataclasses.dataclass
class Flags:
  """A subcommand's flags.

  Attributes:
    given: {name: text} of --name=text; None of a --name alone.
    passed_on: flags of `specdec_jax.main`, as they are.
    files, search_paths: of these the --gin_file's, and what --gin_search_paths has.
  """

  given: dict[str, str | None] = dataclasses.field(default_factory=dict)
  passed_on: list[str] = dataclasses.field(default_factory=list)
  files: list[str] = dataclasses.field(default_factory=list)
  search_paths: list[str] = dataclasses.field(default_factory=list)


def find(name: str) -> Run | None:
  """The run of a subcommand; '-' and '_' are the same."""
  return RUNS.get(name.replace('-', '_'))


def translate(run: Run, arguments: Sequence[str]) -> list[str]:
  """The arguments of `specdec_jax.main` for a subcommand's.

  Args:
    run: of the subcommand.
    arguments: what stands after its name.

  Raises:
    SettingError: a flag that the run does not have, with those that it has.
  """
  flags = _parse(arguments)
  files = flags.files or _blocks(run, flags.given)
  macros = {name for file in files for name in _macros(file, flags.search_paths)}
  bindings = [] if flags.files else _run_bindings(run)
  bindings += _sampling(run, flags.given)
  for name, text in flags.given.items():
    bindings += _binding(run, name, text, macros)
  return [*(f'--gin_file={file}' for file in files if file not in flags.files), *flags.passed_on,
          *(f'--gin_bindings={binding}' for binding in bindings)]


def _parse(arguments: Sequence[str]) -> Flags:
  flags, rest = Flags(), list(arguments)
  while rest:
    argument = rest.pop(0)
    name, equals, text = argument.removeprefix('--').partition('=')
    if not argument.startswith('--') or not name:
      raise SettingError(f"unexpected argument '{argument}'; settings are given as --NAME=VALUE.")
    if not equals and rest and not rest[0].startswith('--'):
      equals, text = '=', rest.pop(0)
    if name.startswith('gin.') or name.removeprefix('no') in _PASSED_ON:
      flags.passed_on.append(f'--{name}{equals}{text}')
      if name == 'gin_file':
        flags.files.append(text)
      if name == 'gin_search_paths':
        flags.search_paths += text.split(',')
    elif name in flags.given:
      raise SettingError(f'--{name} is given twice; several values stand in one, such as --{name}=1,2.')
    else:
      flags.given[name] = text if equals else None
  return flags


def _blocks(run: Run, given: dict[str, str | None]) -> list[str]:
  """The gin files that make the run; takes the flags that choose among them out of `given`."""
  files = [f'gin/runs/{run.gin_name}.gin']
  if 'inputs' in run.blocks:
    files.append('gin/inputs/task.gin' if 'task' in given else 'gin/inputs/file.gin')
  if 'drafter' in run.blocks or 'drafters' in run.blocks:
    kind = given.pop('drafter', None) or ('model' if 'draft' in given or run.needs_drafter else 'none')
    if kind not in _DRAFTERS:
      raise SettingError(f"--drafter is '{kind}'; it must be one of {', '.join(_DRAFTERS)}.")
    files.append(f'gin/drafters/{kind}.gin')
  if 'sampling' in run.blocks:
    files.append('gin/sampling/greedy.gin')
  if 'samplings' in run.blocks and not set(_SAMPLING) & set(given):
    files.append('gin/sampling/greedy_and_temperature_1.gin')
  return files


def _run_bindings(run: Run) -> list[str]:
  return ([f'main.run = @{run.name}'] if run.gin_name != run.name else []) + (
      ["DRAFTERS = {'draft': %DRAFTER}"] if 'drafters' in run.blocks else [])


def _sampling(run: Run, given: dict[str, str | None]) -> list[str]:
  """Bindings of --temperature, --top_k and --top_p, which it takes out of `given`."""
  found = {name: given.pop(name) for name in _SAMPLING if name in given}
  if not found:
    return []
  if 'samplings' not in run.blocks:
    own = 'sampling' not in run.blocks and 'sampling' in inspect.signature(run.function).parameters
    return ([f'{run.name}.sampling = @Sampling()'] if own else []) + [
        f'Sampling.{name} = {_literal(text, Any)}' for name, text in found.items()]
  temperatures = (found.pop('temperature', None) or '1.0').split(',')
  scopes = [f't{i}' for i in range(len(temperatures))]
  return ([f"SAMPLINGS = ({', '.join(f'@{s}/Sampling()' for s in scopes)},)"]
          + [f'{s}/Sampling.temperature = {_literal(t, Any)}' for s, t in zip(scopes, temperatures)]
          + [f'Sampling.{name} = {_literal(text, Any)}' for name, text in found.items()])


def _binding(run: Run, name: str, text: str | None, macros: set[str]) -> list[str]:
  macro = _MACROS.get(name, name.upper())
  if macro in macros:
    return [f'{macro} = {text if macro == "STEPS" else repr(text or "")}']
  if name in _OTHERS:
    setting = next((s for s in _OTHERS[name] if (s.startswith('task')) == ('MIXTURE_OR_TASK_NAME' in macros)),
                   _OTHERS[name][0])
    return [f'{setting} = {_literal(text, str if name == "dtype" else Any)}']
  of_job = RUNS[run.needs[0]] if run.needs else run
  parameters = inspect.signature(of_job.function).parameters
  if name in parameters and name != 'output_dir':
    return [f'{of_job.name}.{name} = {_literal(text, parameters[name].annotation)}']
  known = sorted({m.lower() for m in macros} | set(parameters) - {'output_dir'})
  raise SettingError(f"{run.name} has no setting --{name}; it has {', '.join('--' + k for k in known)}, and "
                     '--gin.NAME=VALUE for any other.' + t5x_names.sentence(name))


def _macros(file: str, search_paths: Sequence[str]) -> list[str]:
  """Names that a gin file, or what it includes, sets: 'TARGET', 'INPUTS'."""
  return [found[1] for line in gin_files.read(file, search_paths).lines if (found := _MACRO.match(line.text))]


def _literal(text: str | None, annotation: Any) -> str:
  """A flag's text as gin has it: texts in quotes, several values in brackets.

  Args:
    text: None is a flag without a value.
    annotation: of the parameter that it sets.
  """
  if text is None:
    return 'True'
  kinds = set(_kinds(annotation))
  if text == 'None' and type(None) in kinds:
    return 'None'
  if text.startswith(('@', '%', '(', '[', '{')):
    return text
  sequence = next((k for k in kinds if typing.get_origin(k) is Sequence), None)
  if sequence is not None:
    of, = typing.get_args(sequence)
    return '(' + ''.join(_literal(part.strip(), of) + ', ' for part in text.split(',') if part.strip()) + ')'
  is_text = str in kinds and int not in kinds  # a number or a word, such as 'auto', may be either
  return repr(text) if is_text or not _is_python(text) else text


def _is_python(text: str) -> bool:
  """Whether a text is a number, True, False or None, as Python writes them."""
  try:
    ast.literal_eval(text)
  except (ValueError, SyntaxError):
    return False
  return True


def _kinds(annotation: Any) -> tuple:
  """The parts of A | B."""
  return typing.get_args(annotation) if isinstance(annotation, types.UnionType) else (annotation,)
