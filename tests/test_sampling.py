"""Logits to distributions: against plain Python, and the corners by hand."""

import dataclasses
from fractions import Fraction

import chisquare
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from specdec_jax.sampling import Sampling, largest, sample, sample_several, standardise

SETTINGS = [Sampling(temperature=t, top_k=k, top_p=p)
            for t in (0.0, 0.5, 1.0, 1.7) for k in (0, 1, 3, 9) for p in (0.35, 0.9, 1.0)]
V = 6
# Whole numbers, so that ties are common.
LOGITS = np.random.default_rng(0).integers(-3, 4, size=(200, V)).astype(np.float32)


@pytest.mark.parametrize('sampling', SETTINGS, ids=lambda s: f'{s.temperature}-{s.top_k}-{s.top_p}')
def test_equals_the_plain_distribution(sampling):
  distributions = sampling.probabilities(LOGITS)
  assert distributions.dtype == jnp.float32
  before_top_p = dataclasses.replace(sampling, top_p=1.0)
  compared = 0
  for logits, got in zip(LOGITS, distributions):
    # A sum that meets top_p to a rounding may fall either way.
    sums = np.cumsum(np.sort(reference.standardise(logits, before_top_p))[::-1])
    if sampling.top_p == 1 or (abs(sums - sampling.top_p) > 1e-5).all():
      np.testing.assert_allclose(got, reference.standardise(logits, sampling), atol=1e-6)
      compared += 1
  assert compared > 150


def distribution(logits, **settings):
  return np.asarray(Sampling(**settings).probabilities(np.array(logits, np.float32)))


def test_greedy_is_the_first_maximum():
  np.testing.assert_array_equal(distribution([1, 3, 3, 0], temperature=0), [0, 1, 0, 0])


def test_top_k_keeps_ties_with_the_kth():
  np.testing.assert_allclose(distribution([2, 1, 1, 1, 0], top_k=2)[[0, 4]], [np.e / (np.e + 3), 0], rtol=1e-6)
  assert (distribution([2, 1, 1, 1, 0], top_k=2) > 0).sum() == 4


def test_top_p_keeps_the_token_that_crosses():
  halves = np.log([0.5, 0.25, 0.125, 0.125])
  np.testing.assert_allclose(distribution(halves, top_p=0.5), [1, 0, 0, 0], atol=1e-6)
  np.testing.assert_allclose(distribution(halves, top_p=0.6), [2 / 3, 1 / 3, 0, 0], atol=1e-6)
  np.testing.assert_array_equal(distribution(halves, top_p=1e-9), [1, 0, 0, 0])


def test_top_p_ties_keep_the_lower_ids():
  np.testing.assert_array_equal(distribution([0, 0, 0, 0], top_p=0.5), [0.5, 0.5, 0, 0])


def test_top_k_comes_before_top_p():
  # Of 0.4, 0.3, 0.2, 0.1: top-2 makes 0.571 and 0.429, so that top_p = 0.5 keeps one.
  np.testing.assert_array_equal(distribution(np.log([0.4, 0.3, 0.2, 0.1]), top_k=2, top_p=0.5), [1, 0, 0, 0])


def test_masked_tokens_get_nothing():
  for settings in ({}, {'top_k': 2}, {'top_p': 0.9}, {'temperature': 0}):
    probs = distribution([-np.inf, 0, 1, -np.inf], **settings)
    assert probs[0] == probs[3] == 0 and abs(probs.sum() - 1) < 1e-6


def test_tiny_temperature_is_nearly_greedy():
  np.testing.assert_array_equal(distribution([30, -2, 30, 29], temperature=1e-29), [0.5, 0, 0.5, 0])


@pytest.mark.parametrize('settings', [{}, {'temperature': 0}, {'top_k': 2, 'top_p': 0.5}])
@pytest.mark.parametrize('row', [[-np.inf] * 3, [0, np.nan, 1], [0, np.inf, 1]])
def test_a_distribution_that_is_none_is_nan(row, settings):
  assert np.isnan(distribution(row, **settings)).all()


def test_bfloat16_logits_are_standardised_in_float32():
  logits = jnp.linspace(-3, 3, 8).astype(jnp.bfloat16)
  probs = Sampling(temperature=0.7).probabilities(logits)
  np.testing.assert_array_equal(probs, Sampling(temperature=0.7).probabilities(logits.astype(jnp.float32)))


@pytest.mark.parametrize('settings', [{}, {'temperature': 0}, {'top_k': 3, 'top_p': 0.8}])
def test_same_under_jit_and_vmap(settings):
  logits = np.random.default_rng(0).normal(size=(4, 3, V)).astype(np.float32)
  sampling = Sampling(**settings)
  plain = sampling.probabilities(logits)
  np.testing.assert_allclose(jax.jit(sampling.probabilities)(logits), plain, atol=1e-7)
  np.testing.assert_allclose(jax.vmap(sampling.probabilities)(logits), plain, atol=1e-7)


def test_draw_follows_the_distribution_and_never_takes_a_zero():
  probs = jnp.array([0.0, 0.5, 0.3, 0.0, 0.2])
  drawn = jax.vmap(sample, (None, 0))(probs, jax.random.split(jax.random.key(0), 50_000))
  assert chisquare.counts(np.bincount(drawn, minlength=5), probs) > chisquare.ACCEPT


@pytest.mark.parametrize('size', [65, 200, 517])
def test_draw_follows_a_distribution_of_several_blocks(size):
  rng = np.random.default_rng(size)
  probs = rng.exponential(size=size) * (rng.random(size) < 0.6)
  probs[64:96] = 0.0  # whole blocks without mass, too
  probs = jnp.asarray(probs / probs.sum(), jnp.float32)
  drawn = jax.vmap(sample, (None, 0))(probs, jax.random.split(jax.random.key(size), 100_000))
  assert chisquare.counts(np.bincount(drawn, minlength=size), probs) > chisquare.ACCEPT
  assert drawn.max() < size


def test_draw_takes_what_is_certain_wherever_it_stands():
  keys = jax.random.split(jax.random.key(0), 8)
  for token in (0, 63, 64, 127, 299):
    one_hot = jax.nn.one_hot(token, 300)
    assert (jax.vmap(sample, (None, 0))(one_hot, keys) == token).all()
  assert (jax.vmap(sample, (None, 0))(jnp.full(300, jnp.nan), keys) < 300).all()


@pytest.mark.parametrize('settings, message', [
    ({'temperature': -0.1}, 'temperature is -0.1; it must be a number that is 0'),
    ({'temperature': float('nan')}, 'temperature is nan'),
    ({'temperature': float('inf')}, 'temperature is inf'),
    ({'temperature': 1e-40}, 'temperature is 1e-40'),
    ({'top_k': -1}, 'top_k is -1; it must be a whole number'),
    ({'top_k': 2.5}, 'top_k is 2.5; it must be a whole number'),
    ({'top_p': 0}, r'top_p is 0; it must be a number in \(0, 1\]'),
    ({'top_p': 1.01}, 'top_p is 1.01'),
    ({'top_p': float('nan')}, 'top_p is nan'),
])
def test_bad_settings_are_named(settings, message):
  with pytest.raises(ValueError, match=message):
    Sampling(**settings)


def test_whole_top_k_may_be_a_float():
  np.testing.assert_array_equal(distribution([2, 1, 0], top_k=2.0), distribution([2, 1, 0], top_k=2))


def test_several_tokens_without_replacement_in_their_order():
  """Each pair of first and second token as often as sampling one after another says."""
  p = jnp.array([0.5, 0.3, 0.15, 0.05, 0.0])
  pairs = np.asarray(jax.vmap(sample_several, (None, 0, None))(p, jax.random.split(jax.random.key(0), 60_000), 2))
  expected = np.array([[a * b / (1 - a) if i != j else 0.0 for j, b in enumerate(p.tolist())]
                       for i, a in enumerate(p.tolist())])
  seen = np.zeros((5, 5))
  np.add.at(seen, tuple(pairs.T), 1)
  assert chisquare.counts(seen, expected) > chisquare.ACCEPT


def test_where_there_are_no_more_tokens_the_rest_is_void():
  several = sample_several(jnp.array([0.0, 0.6, 0.0, 0.4]), jax.random.key(0), 6).tolist()
  assert sorted(several[:2]) == [1, 3] and several[2:] == [-1] * 4
  np.testing.assert_array_equal(largest(jnp.array([[1.0, -jnp.inf, 3.0], [jnp.nan, 2.0, 2.0]]), 4),
                                [[2, 0, -1, -1], [-1, 1, 2, -1]])


def exact_nucleus(probabilities, top_p):
  """Tokens that top-p keeps, by fractions."""
  order = sorted(range(len(probabilities)), key=lambda x: (-probabilities[x], x))
  kept, mass = set(), Fraction(0)
  for x in order:
    if mass >= top_p:
      break
    kept.add(x)
    mass += probabilities[x]
  return kept


def test_top_p_met_exactly_keeps_no_token_more():
  rng = np.random.default_rng(0)
  for _ in range(40):
    k = int(rng.integers(3, 9))
    parts = rng.multinomial(20 - k, np.ones(k) / k) + 1
    p = [Fraction(int(x), 20) for x in parts]
    logits = np.log(np.array(parts) / 20).astype(np.float32)
    for twentieths in range(1, 20):
      kept = np.flatnonzero(standardise_top_p(logits, np.float32(1 - twentieths / 20)))
      assert set(kept.tolist()) == exact_nucleus(p, Fraction(twentieths, 20))


standardise_top_p = jax.jit(lambda logits, tail: standardise(logits, 1.0, 0, tail))


@pytest.mark.parametrize('top_p', [0.5, 0.9, 0.999, 0.9999999])
def test_top_p_of_a_large_vocabulary_keeps_as_many_as_float64(top_p):
  logits = 2 * np.random.default_rng(1).normal(size=32128).astype(np.float32)
  p = np.exp(logits.astype(np.float64))
  p = np.sort(p / p.sum())[::-1]
  expected = int((np.cumsum(p) - p < top_p).sum())
  assert abs(int((Sampling(top_p=top_p).probabilities(logits) > 0).sum()) - expected) <= 1
