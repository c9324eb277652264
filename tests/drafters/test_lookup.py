"""Copying drafts: against a plain Python reading of the rule, and at the edges."""

import jax
import numpy as np
import pytest
from hypothesis import given, strategies as st

import specdec_jax as sd

SLOTS, INPUT = 12, 7


def plain_guess(given_row, text, source, max_match):
  """The rule in plain Python: `text` is what was generated, given_row the input, EOS last."""
  def matches(where):
    for at in range(len(where) - 1):  # the place of the match's last token
      length = 0
      while (length < min(max_match, len(text), at + 1)
             and where[at - length] == text[len(text) - 1 - length]):
        length += 1
      yield length, where[at + 1]

  found = list(matches(given_row)) if source != 'output' else []
  found += list(matches(text)) if source != 'input' else []
  best = max((length for length, _ in found), default=0)
  if best:
    return [token for length, token in found if length == best][-1]
  return given_row[min(len(text), len(given_row) - 1)]


DRAFTERS = {'both': sd.LookupDrafter(), 'input': sd.LookupDrafter(source='input', max_match=2),
            'output': sd.LookupDrafter(source='output', max_match=1)}
GUESS = {name: jax.jit(lambda *args, d=d: d._guesses(*args, count=1)[0]) for name, d in DRAFTERS.items()}


def guess(name, given_row, text, left_over=()):
  given_length = len(given_row)
  given_row = np.pad(np.array(given_row, np.int32), (0, INPUT - given_length))
  history = np.zeros(SLOTS, np.int32)
  history[1:1 + len(text) + len(left_over)] = [*text, *left_over]
  return int(GUESS[name](given_row, given_length, history, len(text) + 1))


def tokens(ids, most):
  return st.lists(st.sampled_from(ids), max_size=most)


@pytest.mark.parametrize('name', DRAFTERS)
def test_against_the_rule_in_plain_python(name):
  drafter = DRAFTERS[name]

  @given(tokens([2, 3, 4], INPUT - 1), tokens([0, 2, 3, 4], 8), tokens([0, 2, 3, 4], 3))
  def same(given_row, text, left_over):
    given_row = [*given_row, 1]
    wanted = plain_guess(given_row, text, drafter.source, drafter.max_match)
    assert guess(name, given_row, text, left_over) == wanted

  same()


@pytest.mark.parametrize('name, given_row, text, wanted', [
    ('both', [5, 6, 7, 1], [], 5),  # the first guess is the input's first token
    ('both', [5, 6, 7, 1], [9, 6], 7),
    ('both', [5, 6, 7, 1], [9, 7], 1),  # what ends the input ends the text
    ('both', [5, 6, 7, 1], [9, 8], 7),  # no match: the token at the same place
    ('both', [5, 6, 7, 1], [9, 8, 9, 8, 10], 1),  # no match past the input's end: its EOS
    ('both', [5, 6, 7, 5, 8, 1], [6, 7, 5], 8),  # the longest match, not the latest
    ('both', [5, 6, 5, 7, 1], [5], 7),  # of equal ones the latest
    ('both', [5, 6, 1], [5, 9, 5], 9),  # and the output before the input
    ('input', [5, 6, 1], [5, 9, 5], 6),
    ('output', [5, 6, 1], [6], 6),
    ('both', [5, 6, 1], [4, 4], 4),  # a match may touch what it continues
    ('both', [9, 1], [5, 9, 5, 8, 0, 5], 8),  # a generated 0 is not the start token
])
def test_examples(name, given_row, text, wanted):
  assert guess(name, given_row, text) == wanted


@pytest.mark.parametrize('name', DRAFTERS)
def test_start_token_padding_and_what_is_left_over_are_not_matched(name):
  """Not even where the text itself holds a 0."""
  assert guess(name, [5, 6, 7, 1], [8, 0]) == 7  # else 8, behind the start token, or padding's end
  assert guess(name, [5, 6, 7, 1], [8], left_over=[8, 9]) == 6


@pytest.mark.parametrize('change, words', [
    ({'source': 'inputs'}, "LookupDrafter.source is 'inputs'; it must be 'input', 'output' or 'both'"),
    ({'max_match': 0}, 'max_match is 0; it must be a whole number of at least 1')])
def test_bad_settings(change, words):
  with pytest.raises(ValueError, match=words):
    sd.LookupDrafter(**change)
