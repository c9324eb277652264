"""Each check: what it lets pass, as what, and the line for what it does not."""

import fractions
import math

import numpy as np
import pytest

from specdec_jax import checks
from specdec_jax.errors import SettingError

HUGE = 10 ** 5000  # no parameter of a test: pytest would write it out


@pytest.mark.parametrize('value, found', [(4, 4), (4.0, 4), (np.int32(4), 4), (np.float32(4), 4),
                                          (fractions.Fraction(8, 2), 4)])
def test_whole_numbers_become_ints(value, found):
  seen = checks.whole('x', value, 1)
  assert seen == found and type(seen) is int


def test_what_is_no_whole_number_in_range_is_named():
  for value in (0, 5, 2.5, '4', None, True, np.True_, [4], (4,), {}, 4j, math.nan, math.inf, -math.inf, HUGE, -HUGE,
                int, np.array([4]), b'4', checks):
    with pytest.raises(SettingError, match=r'^run\.x is .*; it must be a whole number from 1 to 4\.$'):
      checks.whole('run.x', value, 1, 4)


def test_a_bound_above_may_be_missing_and_a_hint_may_be_added():
  assert checks.whole('x', HUGE, 1) == HUGE
  with pytest.raises(SettingError, match=r'^x is 0; it must be a whole number of at least 1 \(or leave it out\)\.$'):
    checks.whole('x', 0, 1, hint=' (or leave it out)')


def test_what_is_no_number_in_range_is_named():
  for value in ('1', None, True, [1], math.nan, 1.5, -0.1, HUGE, 1j, float):
    with pytest.raises(SettingError, match=r'^x is .*; it must be a number in \[0, 1\]\.$'):
      checks.real('x', value, lambda x: 0 <= x <= 1, 'in [0, 1]')


def test_numbers_become_floats():
  seen = checks.real('x', 1, lambda x: 0 <= x <= 1, 'in [0, 1]')
  assert seen == 1 and type(seen) is float
  assert checks.real('x', HUGE, lambda x: True, '') == math.inf


@pytest.mark.parametrize('call, words', [
    (lambda: checks.flag('x', 1), 'x is 1; it must be True or False'),
    (lambda: checks.text('x', 4), 'x is 4; it must be a text'),
    (lambda: checks.text('x', '', empty=False), "x is ''; it must be a text that is not empty"),
    (lambda: checks.choice('x', 'c', ('a', 'b')), "x is 'c'; it must be 'a' or 'b'"),
    (lambda: checks.choice('x', ['a'], ('a',)), r"x is \['a'\]; it must be 'a'"),
    (lambda: checks.instance('x', 4, dict, 'a table'), 'x is 4; it must be a table'),
    (lambda: checks.instance('x', dict, dict, 'a table'), 'x is the class dict; it must be a table'),
    (lambda: checks.instance('x', len, dict, 'a table'), 'x is a builtin_function_or_method; it must'),
    (lambda: checks.instance('x', test_numbers_become_floats, dict, 'a table'), 'x is the function test_numbers'),
    (lambda: checks.wholes('x', 5, 1), 'x is 5; it must be a tuple or list'),
    (lambda: checks.wholes('x', '5', 1), "x is '5'; it must be a tuple or list"),
    (lambda: checks.wholes('x', {5: 5}, 1), 'x is {5: 5}; it must be a tuple or list'),
    (lambda: checks.wholes('x', (), 1), 'x is empty; it needs at least one value'),
    (lambda: checks.wholes('x', (5, '6'), 1), r"x\[1\] is '6'; it must be a whole number of at least 1"),
    (lambda: checks.whole('x', HUGE, 1, 9), 'x is a number of thousands of digits'),
    (lambda: checks.whole('x', 'a' * 200, 1, 9), r"x is 'a{76}\.\.\.; it must"),
    (lambda: checks.whole('x', 'a\nb', 1, 9), r"x is 'a\\nb'; it must"),
])
def test_each_message_is_one_line_with_the_name(call, words):
  with pytest.raises(SettingError, match='^' + words) as caught:
    call()
  assert '\n' not in str(caught.value) and str(caught.value).endswith('.')


def test_sequences_become_tuples():
  assert checks.wholes('x', [4.0, np.int64(5)], 1) == (4, 5)
  assert checks.wholes('x', np.array([4]), 1) == (4,)
  assert checks.wholes('x', [], 1, empty=True) == ()
