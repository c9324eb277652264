"""Beam searches equal what T5X gave: texts and scores, with and without a draft."""

import numpy as np
import pytest

from specdec_jax.beam.search import beam_search
from specdec_jax.drafters.model import ModelDrafter


@pytest.fixture
def load(t5x, imported):
  return lambda name: imported(t5x / name / 'checkpoint_0', 't5x_orbax')


def assert_found(r, e):
  np.testing.assert_array_equal(r.tokens, e.beam4)
  np.testing.assert_allclose(r.scores, e.beam4_scores, atol=1e-4)


@pytest.mark.parametrize('name', ['v1_1', pytest.param('v1_0', marks=pytest.mark.long)])
def test_plain(load, t5x, expected, name):
  e = expected(t5x / name)
  assert_found(beam_search(load(name), e.encoder_input_tokens, 4, 0.6, 24), e)


def check(load, e, name, draft, **options):
  r = beam_search(load(name), e.encoder_input_tokens, 4, 0.6, 24,
                  drafter=ModelDrafter(load(draft)), **options)
  assert_found(r, e)
  return r.stats


def test_drafted_by_itself(load, t5x, expected):
  stats = check(load, expected(t5x / 'v1_0'), 'v1_0', 'v1_0', draft_beams=5, gamma=3)
  np.testing.assert_array_equal(stats.accepted, stats.drafted)
  np.testing.assert_array_equal(stats.target_calls, -(-stats.steps // 4))


@pytest.mark.long
@pytest.mark.parametrize('gamma', [1, 4, 7])
@pytest.mark.parametrize('draft_beams', [4, 8])
@pytest.mark.parametrize('name, draft', [('v1_1', 'v1_0'), ('v1_0', 'v1_1'), ('v1_1', 'v1_1')])
def test_drafted(load, t5x, expected, name, draft, draft_beams, gamma):
  stats = check(load, expected(t5x / name), name, draft, draft_beams=draft_beams, gamma=gamma)
  if name == draft:
    np.testing.assert_array_equal(stats.accepted, stats.drafted)
