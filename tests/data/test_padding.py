"""Rows of different lengths as an array."""

import numpy as np
import pytest

from specdec_jax.data.padding import pad_rows


@pytest.mark.parametrize('rows, options, wanted', [
    ([[1, 2, 3], [4]], {}, [[1, 2, 3], [4, 0, 0]]), ([[1], []], {'pad_id': 7}, [[1], [7]]),
    ([[1], [2, 3]], {'length': 4, 'pad_id': 9}, [[1, 9, 9, 9], [2, 3, 9, 9]]), ([[]], {}, [[]])])
def test_rows_are_padded_on_the_right(rows, options, wanted):
  found = pad_rows(rows, **options)
  assert found.dtype == np.int32 and found.tolist() == wanted
