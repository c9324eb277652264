"""Rows of different lengths as an array."""

import numpy as np
import pytest

from specdec_jax.data.padding import pad_rows, padded_length, usual_lengths


@pytest.mark.parametrize('rows, options, wanted', [
    ([[1, 2, 3], [4]], {}, [[1, 2, 3], [4, 0, 0]]), ([[1], []], {'pad_id': 7}, [[1], [7]]),
    ([[1], [2, 3]], {'length': 4, 'pad_id': 9}, [[1, 9, 9, 9], [2, 3, 9, 9]]), ([[]], {}, [[]])])
def test_rows_are_padded_on_the_right(rows, options, wanted):
  found = pad_rows(rows, **options)
  assert found.dtype == np.int32 and found.tolist() == wanted


def test_usual_lengths_are_powers_of_two():
  assert [padded_length(n) for n in (1, 16, 17, 33, 64, 65, 385)] == [16, 16, 32, 64, 64, 128, 512]
  assert usual_lengths(1) == [16] and usual_lengths(100) == [16, 32, 64, 128]


def test_given_lengths_hold_what_fits():
  assert [padded_length(n, (9, 12)) for n in (1, 9, 10, 13)] == [9, 9, 12, 13]
  assert padded_length(7, ()) == 7
