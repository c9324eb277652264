"""Values are checked before anything is loaded, by the name that the user wrote."""

import pytest

from specdec_jax import arguments
from specdec_jax.cli import bindings, gin_config
from specdec_jax.errors import ConfigError, SettingError

loaded = []


@arguments.checked(size=arguments.at_least(1), name=arguments.optional(arguments.text))
def part_of_values(size=1, name=None):
  return size, name


@arguments.checked(path=arguments.path)
def loading_of_values(path):
  loaded.append(path)


@arguments.checked(count=arguments.at_least(1), part=arguments.instance(tuple, 'a part, such as @part_of_values()'),
                   thing=arguments.text)
def run_of_values(output_dir, count=1, part=None, thing=None, anything=None):
  return count


def needs_an_argument_of_values(given, other=1):
  return given, other


@pytest.fixture(scope='module', autouse=True)
def registered():
  import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
  bindings.register(part_of_values, light=True)
  bindings.register(loading_of_values)
  bindings.register(run_of_values)
  bindings.register(needs_an_argument_of_values, light=True)


def parse(*more):
  gin_config.parse([], ["main.output_dir = 'x'", 'main.run = @run_of_values', *more])


@pytest.mark.parametrize('more, words', [
    (["run_of_values.count = '4'"], r"^run_of_values\.count is '4'; it must be a whole number of at least 1\.$"),
    (['run_of_values.count = %A', 'A = 0'], r'^A is 0; it must'),
    (['run_of_values.count = %A', 'A = %B', 'B = None'], r'^B is None; it must'),
    (['run_of_values.part = 5'], r'^run_of_values\.part is 5; it must be a part, such as @part_of_values\(\)'),
    (['run_of_values.part = @part_of_values'], r'^run_of_values\.part is the function part_of_values'),
    (['run_of_values.part = @s/part_of_values()', 's/part_of_values.size = 0'], r'^s/part_of_values\.size is 0'),
    (['run_of_values.part = @s/part_of_values()', 'part_of_values.name = 3'], r'^part_of_values\.name is 3'),
    (['run_of_values.anything = [{1: @part_of_values()}]', 'part_of_values.size = -1'], r'^part_of_values\.size is -1'),
    (['run_of_values.anything = @loading_of_values()', 'loading_of_values.path = %A', 'A = 5'],
     r'^A is 5; it must be a path'),
    (['run_of_values.anything = @loading_of_values()', 'loading_of_values.path = @part_of_values()'],
     r'^loading_of_values\.path is \(1, None\)'),
    (['main.hosts = @Hosts()', 'Hosts.num_processes = 2'], r'Hosts needs coordinator_address'),
    (['main.output_dir = 5'], r'^main\.output_dir is 5'),
    (['main.output_dir = %OUTPUT_DIR', 'OUTPUT_DIR = ["x"]'], r"^OUTPUT_DIR is \['x'\]"),
])
def test_a_wrong_value_is_named_before_anything_is_loaded(more, words):
  loaded.clear()
  with pytest.raises(SettingError, match=words) as caught:
    parse(*more)
  assert '\n' not in str(caught.value) and not loaded


def test_what_loads_something_is_left_to_the_run():
  loaded.clear()
  parse('run_of_values.part = @loading_of_values()', "loading_of_values.path = 'x'",
        'run_of_values.thing = [@part_of_values, @loading_of_values()]')
  assert not loaded


@pytest.mark.parametrize('reference, required', [('@needs_an_argument_of_values()', True),
                                                 ('@needs_an_argument_of_values', False)])
def test_an_argument_that_only_a_caller_could_give_is_required(reference, required):
  if not required:
    return parse(f'run_of_values.anything = {reference}')
  with pytest.raises(ConfigError, match=r'needs_an_argument_of_values\.given is required'):
    parse(f'run_of_values.anything = {reference}')
