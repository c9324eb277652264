import pathlib
import re

import gin
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import bindings, gin_config
from specdec_jax.errors import ConfigError


def inner(size=1):
  return size


def outer(part=None, other=gin.REQUIRED):
  return part, other


def calls_inner():
  return gin.get_configurable('inner')()



@pytest.fixture(scope='module', autouse=True)
def registered():
  bindings.register(inner)
  bindings.register(outer)
  bindings.register(calls_inner, needs=('inner',))


RUN = ["main.output_dir = 'x'", 'main.run = @outer', 'outer.other = 1']


def parse(*bindings):
  gin_config.parse([], [*RUN, *bindings])


def test_used_settings_pass_and_are_listed():
  parse('outer.part = [@a/inner(), %B]', 'a/inner.size = 2', 'B = 3')
  flat = gin_config.flat()
  assert flat['outer.part'] == '[@a/inner(), %B]'
  assert flat['a/inner.size'] == '2' and flat['B'] == '3'


@pytest.mark.parametrize('bindings, words', [
    (['inner.size = 2'], r'not used by this run: inner\.size'),
    (['outer.part = @a/inner()', 'b/inner.size = 2'], r'not used by this run: b/inner\.size'),
    (['outer.part = @a/inner()', 'a/inner.size = 1', 'inner.size = 2'],
     r'not used by this run: inner\.size'),
    (['B = 1', 'outer.part = %C', 'C = 2'], 'not used by this run: B'),
    (['outer.part = %B', 'B = %C'], 'C is required'),
    (['outer.part = %B', 'B = %gin.REQUIRED'], 'B is required'),
    (['outer.part = %gin.REQUIRED'], 'outer.part is required'),
])
def test_unused_and_missing_settings(bindings, words):
  with pytest.raises(ConfigError, match=words):
    parse(*bindings)


def test_a_required_argument_is_named():
  with pytest.raises(ConfigError, match=r'outer\.other is required'):
    gin_config.parse([], RUN[:2])


def test_scopes_pass_to_what_is_called_in_them():
  parse('outer.part = @s/outer', 's/outer.part = @inner()', 's/inner.size = 2')


@pytest.mark.parametrize('bindings, words', [
    (['outer.part = %A', 'A = %A'], r'A needs itself \(A -> A\); break the circle'),
    (['outer.part = [{1: %A}]', 'A = (%B,)', 'B = @inner()', 'inner.size = %A'], r'A -> B -> B/inner -> A'),
    (['outer.part = @s/inner()', 's/inner.size = @s/inner()'], r's/inner needs itself'),
])
def test_a_circle_is_named(bindings, words):
  with pytest.raises(ConfigError, match=words):
    parse(*bindings)


def test_a_function_that_is_not_called_closes_no_circle():
  parse('outer.part = @a/outer', 'a/outer.other = @a/outer')


def test_only_public_names_of_gin_are_used():
  package = pathlib.Path(gin_config.__file__).parents[1]
  private = re.compile(r'\bgin\.(?:\w+\.)*_\w')
  assert private.search('gin.config._CONFIG') and not private.search('gin.config_str')
  assert [f.name for f in package.rglob('*.py') if private.search(f.read_text())] == []


def test_what_a_run_calls_itself_is_used():
  parse('outer.part = @calls_inner', 'inner.size = 2')


