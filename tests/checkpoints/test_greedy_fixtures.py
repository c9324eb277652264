"""Greedy decodes equal what T5X and transformers gave, at gamma 1 to 8, in batches and alone."""

import numpy as np
import pytest

from specdec_jax.decoding import autoregressive_decode, speculative_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampling

GREEDY = Sampling(temperature=0.0)
LENGTH = 24

# Fixture, gammas tried on the batch, gammas tried one by one; 0 is plain decoding. Every gamma is tried on
# some batch; all of them for every fixture, on the batch and one by one, are in the long test.
CASES = (
    ('t5x/v1_1', (0, 1, 8), (4,)),
    ('t5x/v1_0', (2,), ()),
    ('hf/t5_v1_1', (3,), ()),
    ('hf/t5_v1_1_tied', (4,), ()),
    ('hf/t5_v1_0', (5,), ()),
    ('hf/mt5', (6,), ()),
    ('hf/umt5', (7,), ()))


@pytest.fixture
def pair(t5x, hf, imported):
  """pair(fixture) -> target, draft, folder. T5X's fixtures draft for each other."""
  def load(fixture):
    kind, name = fixture.split('/')
    if kind == 'hf':
      return (imported(hf / name / 'target', 'huggingface'),
              imported(hf / name / 'draft', 'huggingface'), hf / name)
    other = {'v1_0': 'v1_1', 'v1_1': 'v1_0'}[name]
    return (imported(t5x / name / 'checkpoint_0', 't5x_orbax'),
            imported(t5x / other / 'checkpoint_0', 't5x_orbax'), t5x / name)
  return load


def wanted(e):
  """int32 [3, 24]; transformers' leading start token cut off."""
  return e.greedy[:, -LENGTH:]


def assert_decodes(result, tokens):
  np.testing.assert_array_equal(result.tokens, tokens)
  ends = (tokens == 1).any(axis=1)
  np.testing.assert_array_equal(
      result.lengths, np.where(ends, (tokens == 1).argmax(axis=1) + 1, LENGTH))


def check(pair, expected, fixture, batched, alone):
  target, draft, folder = pair(fixture)
  e = expected(folder)
  rows = [slice(i, i + 1) for i in range(len(e.greedy))]
  for row, gammas in [(slice(None), batched)] + [(row, alone) for row in rows]:
    inputs = e.encoder_input_tokens[row]
    for gamma in gammas:
      if gamma:
        result = speculative_decode(target, ModelDrafter(draft), inputs, gamma=gamma,
                                    sampling=GREEDY, max_decode_len=LENGTH)
      else:
        result = autoregressive_decode(target, inputs, sampling=GREEDY, max_decode_len=LENGTH)
      assert_decodes(result, wanted(e)[row])


def test_the_cases_hold_every_gamma():
  assert {gamma for _, batched, _ in CASES for gamma in batched} == set(range(9))


def test_the_fixtures_hold_rows_that_end_and_rows_that_do_not(t5x, hf, expected):
  for fixture, *_ in CASES:
    kind, name = fixture.split('/')
    ends = (wanted(expected({'t5x': t5x, 'hf': hf}[kind] / name)) == 1).any(axis=1)
    assert ends.any() and not ends.all()


@pytest.mark.parametrize('fixture, batched, alone', CASES, ids=[case[0] for case in CASES])
def test_greedy(pair, expected, fixture, batched, alone):
  check(pair, expected, fixture, batched, alone)


@pytest.mark.long
@pytest.mark.parametrize('fixture', [case[0] for case in CASES])
def test_greedy_at_every_gamma(pair, expected, fixture):
  check(pair, expected, fixture, range(9), range(9))


def test_the_target_as_its_own_draft_is_always_accepted(pair, expected):
  target, _, folder = pair('hf/umt5')
  e = expected(folder)
  result = speculative_decode(target, ModelDrafter(target), e.encoder_input_tokens, gamma=3,
                              sampling=GREEDY, max_decode_len=LENGTH)
  assert_decodes(result, wanted(e))
  np.testing.assert_array_equal(result.stats.accepted, result.stats.drafted)
