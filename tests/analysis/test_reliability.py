"""Timings that contradict each other, made up, so that arithmetic says what is right."""

import pytest

from specdec_jax.analysis import reliability


def test_spread_is_how_far_medians_lie_above_the_fastest():
  assert reliability.spread([[1.0, 1.1, 5.0], [2.0, 2.0, 2.2]]) == pytest.approx((1.1 + 2.0) / 3.0 - 1)
  assert reliability.spread([[1.0, 2.0]]) == pytest.approx(0.5)
  assert reliability.spread([[1.0], [3.0]]) is None
  assert reliability.spread([[0.5, 0.5, 0.5]]) == 0


def test_one_slow_repeat_of_three_is_no_reason():
  assert reliability.of_repeats({'x': reliability.spread([[1.0, 9.0, 1.0]]), 'y': None}) == []


def test_repeats_that_differ():
  assert reliability.of_repeats({'target alone': 0.31, 'speculative': 0.149}) == [
      'target alone: the median repeat took 31% longer than the fastest']
  assert len(reliability.of_repeats({'a': float('nan')})) == 1


@pytest.mark.parametrize('c, verify_cost, c_hat, words', [
    (0.05, 1.2, 0.02, []), (0.0, 0.95, 0.0, []), (1.9, 3.0, 0.9, []), (3.5, 1.0, 2.0, []),
    (0.05, 0.55, 0.02, ['a pass over 8 tokens took 0.55 of the time of a one-token pass']),
    (-0.1, 1.0, 0.02, ['a draft token took -0.10 of the time of a target step, and 0.02 of its operations']),
    (2.5, 0.5, 0.02, ['a pass over 8', 'a draft token took 2.50']),
    (4.5, 1.0, 2.0, ['a draft token took 4.50']), (float('inf'), 1.0, 0.1, ['a draft token took inf']),
    (float('nan'), float('nan'), 0.1, ['a pass over 8', 'a draft token took nan'])])
def test_parts_that_cannot_be(c, verify_cost, c_hat, words):
  found = reliability.of_cost(7, c, verify_cost, c_hat)
  assert len(found) == len(words) and all(reason.startswith(word) for reason, word in zip(found, words))


@pytest.mark.parametrize('alone, speculative, speed_up, count', [
    (0.9, 0.92, 1.6, 0), (0.8, 0.99, 1.6, 0), (1.25, 1.01, 1.6, 0),
    (1.0, 2.64, 1.55, 2),  # the parts give 0.59X
    (0.79, 0.79, 1.55, 2),  # both wrong by as much: the ratio agrees
    (1.2, 0.85, 2.0, 1)])  # each alone would pass
def test_parts_that_contradict_the_whole(alone, speculative, speed_up, count):
  found = reliability.of_whole({'target alone': alone, 'speculative': speculative}, speed_up,
                               speed_up * alone / speculative)
  assert len(found) == count


def test_the_reasons_in_words():
  assert reliability.of_whole({'speculative': 2.64}, 1.55, 0.59) == [
      'speculative: the parts, timed alone, add up to 264% of the time',
      'the parts, timed alone, give a speed-up of 0.59X, and 1.55X was measured']
