"""Block verification: plain Python for the same numbers, known values, its distribution by chi-square."""

import chisquare
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings, strategies as st
from rule_tables import GAMMA, PAIRS, V, normal, weights

from specdec_jax.errors import SettingError
from specdec_jax.rule import verify, verify_block

KEYS = 60_000


def many(p, q, rule):
  """Drafts [K, gamma] from q, num_accepted [K] and next tokens [K]."""
  p, q = jnp.asarray(p), jnp.asarray(q)

  def one(key):
    draft_key, rule_key = jax.random.split(key)
    draft = jax.random.categorical(draft_key, jnp.log(q)).astype(jnp.int32)
    return draft, *rule(p, q, draft, rule_key)

  return [np.asarray(x) for x in jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), KEYS))]


_jitted = jax.jit(lambda p, q, draft, key: verify(p, q, draft, key, verification='block'))


@settings(max_examples=100)
@given(weights(GAMMA + 1), weights(GAMMA), st.integers(0, 2**32 - 1), st.data())
def test_equals_plain_python_for_the_same_uniforms(p, q, seed, data):
  p, q = normal(p), normal(q)
  draft = [data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in q]
  key = jax.random.key(seed)
  eta = np.asarray(jax.random.uniform(jax.random.split(key)[0], (GAMMA,)), np.float64)
  n, distribution = reference.verify_block(p.astype(float), q.astype(float), draft, eta)
  got_n, got_next = _jitted(p, q, np.array(draft), key)
  assert got_n == n and distribution[int(got_next)] > 0


def test_known_values_of_two_letters():
  """Target (1/3, 2/3), draft (2/3, 1/3), gamma 2: 11/9 accepted by the block rule, 10/9 by the token rule."""
  p = jnp.tile(jnp.array([1 / 3, 2 / 3], jnp.float32), (3, 1))
  q = jnp.tile(jnp.array([2 / 3, 1 / 3], jnp.float32), (2, 1))
  for verification, expected in (('block', 11 / 9), ('token', 10 / 9)):
    _, n, _ = many(p, q, lambda *args, v=verification: verify(*args, verification=v))
    assert n.mean() == pytest.approx(expected, abs=4 * n.std() / np.sqrt(KEYS))


def blocks(p, draft, n, next_token):
  """Counts [V, V, V, V] of blocks, filled up from p where the rule gave fewer than 4 tokens."""
  rng, counts = np.random.default_rng(0), np.zeros([V] * (GAMMA + 1))
  block = np.zeros((len(n), GAMMA + 1), int)
  for i in range(GAMMA + 1):
    fill = rng.choice(V, len(n), p=p[i].astype(float) / p[i].astype(float).sum())
    block[:, i] = np.where(i < n, draft[:, i] if i < GAMMA else fill, np.where(i == n, next_token, fill))
  np.add.at(counts, tuple(block.T), 1)
  return counts


@pytest.mark.parametrize('kind', PAIRS)
def test_the_block_follows_p_and_no_fewer_tokens_are_accepted(kind):
  p, q = PAIRS[kind]
  product = np.einsum('a,b,c,d->abcd', *p.astype(float))
  draft, n, next_token = many(p, q, verify_block)
  assert chisquare.counts(blocks(p, draft, n, next_token), product) > chisquare.ACCEPT
  _, by_token, _ = many(p, q, verify)
  assert n.mean() >= by_token.mean() - 4 * by_token.std() / np.sqrt(KEYS)
  if kind == 'equal':
    assert set(n) == {GAMMA}
  if kind == 'random':
    assert n.mean() > by_token.mean() + 4 * by_token.std() / np.sqrt(KEYS)


def test_stopping_at_the_first_place_that_does_not_count_is_rejected():
  """The fault that the paper warns of: 5/9 tokens on the two letters, and a wrong distribution."""
  p = jnp.tile(jnp.array([1 / 3, 2 / 3], jnp.float32), (3, 1))
  q = jnp.tile(jnp.array([2 / 3, 1 / 3], jnp.float32), (2, 1))

  def faulty(p, q, draft, key):
    eta = jax.random.uniform(jax.random.split(key)[0], (2,))
    w = [jnp.float32(1)]
    for i in range(2):
      w.append(jnp.minimum(1, w[-1] * p[i, draft[i]] / q[i, draft[i]]))
    over = jnp.maximum(w[1] * p[1] - q[1], 0).sum()
    h = jnp.stack([jnp.where(over + 1 - w[1] > 0, over / (over + 1 - w[1]), 1.0), w[2]])
    n = jnp.cumprod((eta < h).astype(jnp.int32)).sum()
    return n, jnp.int32(0)

  _, n, _ = many(p, q, faulty)
  assert n.mean() == pytest.approx(5 / 9, abs=4 * n.std() / np.sqrt(KEYS))


_cut = jax.jit(verify_block)


def test_places_past_the_length_have_no_part():
  p, q = PAIRS['random']
  broken_p, broken_q = p.copy(), q.copy()
  broken_p[2:], broken_q[1:] = np.nan, np.nan
  for seed in range(50):
    args = jnp.array([0, 1, 2]), jax.random.key(seed), jnp.int32(1)
    whole, broken = _cut(p, q, *args), _cut(broken_p, broken_q, *args)
    assert whole == broken and whole[0] <= 1
  rule = lambda p, q, draft, key: verify_block(p, q, draft, key, jnp.int32(2))
  draft, n, next_token = many(p, q, rule)
  product = np.einsum('a,b,c,d->abcd', *p.astype(float))
  assert chisquare.counts(blocks(p, draft, n, next_token), product) > chisquare.ACCEPT


@pytest.mark.parametrize('options, message', [
    ({'lenience': 0.5}, "lenience is 0.5 and verification 'block'; lenience below 1 goes with 'token' only"),
    ({'verification': 'token '}, "verification is 'token '; it must be 'token' or 'block'")])
def test_what_does_not_go_together_is_refused(options, message):
  p, q = PAIRS['random']
  with pytest.raises(SettingError, match=message):
    verify(p, q, np.array([0, 1, 2]), jax.random.key(0), **{'verification': 'block', **options})
