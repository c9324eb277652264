"""Checks that are declared above a function: made when it is called, and found by the command line."""

import inspect

import gin
import pytest

from specdec_jax import arguments
from specdec_jax.errors import MissingError, SettingError


@arguments.checked(gamma=arguments.optional(arguments.at_least(1)), buckets=arguments.tuple_of(arguments.at_least(1)))
def decode(where, gamma=None, *, buckets=(), other=0):
  """What it does."""
  return where, gamma, buckets, other


def test_arguments_are_passed_on_as_the_checks_return_them():
  assert decode('x', 4.0, buckets=[16.0, 32]) == ('x', 4, (16, 32), 0)
  assert decode('x', other='any') == ('x', None, (), 'any')


@pytest.mark.parametrize('call, words', [
    (lambda: decode('x', '4'), r"^decode\.gamma is '4'; it must be a whole number of at least 1\.$"),
    (lambda: decode('x', gamma=0), r'^decode\.gamma is 0'),
    (lambda: decode('x', buckets=5), r'^decode\.buckets is 5'),
    (lambda: decode('x', buckets=[1, 0]), r'^decode\.buckets\[1\] is 0'),
])
def test_a_wrong_one_is_named_as_a_setting(call, words):
  with pytest.raises(SettingError, match=words):
    call()


def test_the_function_looks_as_it_was_written_to_gin_too():
  assert decode.__name__ == 'decode' and decode.__doc__ == 'What it does.'
  assert list(inspect.signature(decode).parameters) == ['where', 'gamma', 'buckets', 'other']
  gin.external_configurable(decode, 'decode_of_arguments')
  with gin.unlock_config():
    gin.bind_parameter('decode_of_arguments.other', 3)
    with pytest.raises(ValueError, match="doesn't have a parameter named 'no'"):
      gin.bind_parameter('decode_of_arguments.no', 3)
  assert gin.get_configurable('decode_of_arguments')('x', 2)[-1] == 3


def test_declared_checks_are_found():
  assert set(arguments.declared(decode)) == {'gamma', 'buckets'} and arguments.declared(len) == {}
  with pytest.raises(TypeError, match='has no argument gama to check'):
    arguments.checked(gama=arguments.text)(lambda gamma: gamma)


@pytest.mark.parametrize('check, right, wrong', [
    (arguments.between(1, 3), (1, 3), (0, 4, None)),
    (arguments.probability, (0, 1, 0.5), (-1, 2, None, 'x')),
    (arguments.positive, (1e-9, 3), (0, -1, float('inf'))),
    (arguments.not_negative, (0, 3.5), (-1e-9, float('inf'), 'x')),
    (arguments.text_of(('a', 'b')), ('a', 'b'), ('c', None, 1)),
    (arguments.optional(arguments.flag), (None, True), (0, 'x')),
    (arguments.instance(dict, 'a table'), ({},), (4, dict)),
    (arguments.tuple_of(arguments.text, empty=True), ((), ('a',)), ('a', (1,), 4)),
    (arguments.path, ('~/x', 'embedded:ende/target', 'gs://a/b'), (5, '', None, 'a\0b')),
    (arguments.function, (len,), (4, 'len', None)),
    (arguments.iterable, ([], (1,), iter(())), (4, 'abc', None, {})),
])
def test_checks_by_themselves(check, right, wrong):
  for value in right:
    assert check('x', value) == value
  for value in wrong:
    with pytest.raises(SettingError, match='^x'):
      check('x', value)


def test_a_shipped_path_must_be_there():
  with pytest.raises(MissingError, match='embedded:ende/nothing'):
    arguments.path('x', 'embedded:ende/nothing')
