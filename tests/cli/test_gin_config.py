import gin
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_config
from specdec_jax.errors import ConfigError


def inner(size=1):
  return size


def outer(part=None, other=gin.REQUIRED):
  return part, other


def calls_inner():
  return gin.get_configurable('inner')()


calls_inner.uses = ('inner',)


@pytest.fixture(scope='module', autouse=True)
def registered():
  for function in (inner, outer, calls_inner):
    gin.external_configurable(function, module='tests')


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


def test_what_a_run_calls_itself_is_used():
  parse('outer.part = @calls_inner', 'inner.size = 2')


def test_files_are_found_by_search_path(tmp_path):
  (tmp_path / 'sub').mkdir()
  (tmp_path / 'sub' / 'part.gin').write_text('outer.part = @inner()\n')
  gin_config.parse(['sub/part.gin'], RUN, [str(tmp_path)])
  (tmp_path / 'bad.gin').write_text("include 'sub/part.gin'\nouter.prt = 3\n")
  with pytest.raises(ConfigError, match=r"'prt' \(in .*bad\.gin, line 2\); it has part"):
    gin_config.parse([str(tmp_path / 'bad.gin')], RUN)
  (tmp_path / 'torn.gin').write_text('outer.part = (1,\n')
  with pytest.raises(ConfigError, match='torn.gin'):
    gin_config.parse([str(tmp_path / 'torn.gin')], RUN)
  with pytest.raises(ConfigError, match=r'nothing\.gin.*line 1'):
    (tmp_path / 'lost.gin').write_text("include 'sub/nothing.gin'\n")
    gin_config.parse([str(tmp_path / 'lost.gin')], RUN)
