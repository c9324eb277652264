"""Which slices hold a model, from its sizes."""

import pytest

from specdec_jax.models.known import known_config
from specdec_jax.tpu import fits


def test_t5_xxl():
  half, small = rows = fits.fits(known_config('t5_1_1_xxl'))
  assert (half['dtype'], small['dtype']) == ('bfloat16', 'int8')
  assert half['bytes'] / 1e9 == pytest.approx(22.27, rel=0.01) and small['bytes'] / half['bytes'] < 0.51
  assert half['slices'] == {'v4': '1x1x1', 'v5e': '2x2', 'v5p': '1x1x1', 'v6e': '1x1', 'tpu7x': '1x1x1'}
  assert small['slices']['v5e'] == '1x1'
  first, second = fits.text(rows).split('\n')
  assert first.startswith('fits          as bfloat16, 22.27 GB, by size: v4 1x1x1, v5e 2x2,')
  assert 'as int8, 11.15 GB' in second


def test_a_draft_needs_room_too():
  alone = fits.fits(known_config('t5_1_1_small'))
  both = fits.fits(known_config('t5_1_1_small'), 't5_1_1_small')
  assert [row['bytes'] for row in both] == [2 * row['bytes'] for row in alone]
