"""Headers of the blocks in gin/: their settings exist, and the defaults they name are the defaults."""

import ast
import inspect
import re

import documented
import gin
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax import rule
from specdec_jax.decoding.inputs import checked_tree

BLOCKS = [p for p in documented.CONFIGURATIONS if p.relative_to(documented.ROOT).parts[0] == 'gin'
          and 'Commonly overridden' in p.read_text()]
MISSING = object()


def settings(path):
  """(names, description) of each line under 'Commonly overridden'."""
  header = path.read_text().split('Commonly overridden')[1].partition('\n\n')[0]
  for line in header.splitlines():
    if m := re.match(r'#   ((?:[\w/]+\.|\.)[\w]+(?:, (?:[\w/]+)?\.?[\w.]+)*) +(.*)$', line):
      names = m[1].split(', ')
      for i, name in enumerate(names):  # '.id_field' is of the one before
        names[i] = names[i - 1].rpartition('.')[0] + name if name.startswith('.') else name
      yield names, m[2]


def named_default(description):
  """The value of a closing '(VALUE)' or '(VALUE; more)'; MISSING where there is none."""
  for start in (m.start() for m in re.finditer(r'\(', description)):
    inside = re.match(r'\((.*)\)$', description[start:])
    if inside:
      try:
        return ast.literal_eval(inside[1].split(';')[0].strip().replace('2^18', '262144') or '()')
      except (ValueError, SyntaxError):
        continue
  return MISSING


def default(name, path):
  """What the file itself sets, else the default of the parameter."""
  bound = re.search(rf'^{re.escape(name)} = (.*)$', path.read_text(), re.MULTILINE)
  if bound:
    return bound[1] if bound[1].startswith('@') else ast.literal_eval(bound[1])
  configurable, _, parameter = name.rpartition('/')[2].rpartition('.')
  function = gin.get_configurable(configurable)
  function = inspect.getmro(function)[1] if inspect.isclass(function) else function
  value = inspect.signature(function).parameters[parameter].default
  if value is None:  # a run hands these on only where there is a drafter
    value = {'gamma': checked_tree(None, None).num_nodes, 'verification': rule.VERIFICATIONS[0]}.get(parameter)
  return value


@pytest.mark.parametrize('path', BLOCKS, ids=lambda p: str(p.relative_to(documented.ROOT)))
def test_settings_and_defaults(path):
  for names, description in settings(path):
    defaults = [default(name, path) for name in names]  # KeyError where a parameter is not there
    named = named_default(description)
    if named is not MISSING:
      assert named == (defaults[0] if len(names) == 1 else tuple(defaults)) or [named] * len(names) == defaults, names


def test_there_is_something_to_compare():
  found = [(names, named_default(d)) for path in BLOCKS for names, d in settings(path)]
  assert len(found) > 80 and sum(value is not MISSING for _, value in found) > 50
  assert named_default('most tokens of a text (128)') == 128 and named_default('(7; only with a drafter)') == 7
  assert named_default("each with every gamma ((1.0,))") == (1.0,) and named_default('as stored by default') is MISSING
