"""Each processor against its definition in plain Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.logits_processors import ForbiddenTokens, MinimumLength, RepetitionPenalty
from specdec_jax.standardizer import Context

LOGITS = np.array([2.0, -1.0, 0.0, 3.0, -np.inf, 1.0], np.float32)


def context(tokens, given=1, slots=8):
  padded = np.zeros(slots, np.int32)
  padded[:len(tokens)] = tokens
  return Context(jnp.asarray(padded), jnp.int32(len(tokens)), jnp.int32(len(tokens) - given))


def apply(processor, tokens):
  return np.asarray(jax.jit(processor)(LOGITS, context(tokens)))


@pytest.mark.parametrize('tokens', [[0], [0, 3], [0, 1, 1, 5], [2, 4, 3, 1, 0, 5, 2, 3]])
@pytest.mark.parametrize('penalty', [1.0, 2.0, 0.5])
def test_repetition_penalty(tokens, penalty):
  expected = [(x / penalty if x > 0 else x * penalty) if i in tokens else x
              for i, x in enumerate(LOGITS)]
  np.testing.assert_allclose(apply(RepetitionPenalty(penalty), tokens), expected)


def test_repetition_penalty_leaves_a_token_alone_that_is_only_padding():
  got = np.asarray(RepetitionPenalty(2.0)(LOGITS, context([3, 5])))
  np.testing.assert_allclose(got[[0, 3, 5]], [2.0, 1.5, 0.5])


def test_minimum_length():
  for generated in range(5):
    got = apply(MinimumLength(3), [0] + [5] * generated)
    assert (got[1] == -np.inf) == (generated < 3)
    np.testing.assert_array_equal(got[[0, 2, 3, 4, 5]], LOGITS[[0, 2, 3, 4, 5]])
  assert apply(MinimumLength(1, eos_id=3), [0])[3] == -np.inf


def test_forbidden_tokens():
  got = apply(ForbiddenTokens([3, 0]), [0])
  assert got[0] == got[3] == -np.inf
  np.testing.assert_array_equal(got[[1, 2, 4, 5]], LOGITS[[1, 2, 4, 5]])


def test_processors_are_static_and_equal_by_value():
  assert ForbiddenTokens([1, 2]) == ForbiddenTokens((1, 2))
  assert hash(ForbiddenTokens([1, 2])) == hash(ForbiddenTokens(np.array([1, 2])))


@pytest.mark.parametrize('make, message', [
    (lambda: RepetitionPenalty(0), 'RepetitionPenalty.penalty is 0; it must be a number above 0'),
    (lambda: RepetitionPenalty(float('nan')), 'RepetitionPenalty.penalty is nan'),
    (lambda: MinimumLength(-1), 'MinimumLength.length is -1'),
    (lambda: ForbiddenTokens(()), 'ForbiddenTokens.tokens is empty; it needs at least one value'),
    (lambda: ForbiddenTokens((3, -1)), r'ForbiddenTokens.tokens\[1\] is -1'),
])
def test_bad_settings_are_named(make, message):
  with pytest.raises(ValueError, match=message):
    make()
