"""The rule alone: equal to plain Python for the same random numbers, and its distribution by chi-square."""

import chisquare
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import rule_tables
from hypothesis import given, strategies as st
from rule_tables import GAMMA, V, distributions, normal, weights

from specdec_jax import sampling as sampling_lib
from specdec_jax.rule import residual, token as token_rule, verify, verify_greedy_tree
from specdec_jax.tree import Tree

KEYS = 40_000


ties = np.array([[.25] * 4, [.5, .5, 0, 0], [0, .5, .5, 0], [.25] * 4], np.float32)
one_hot = lambda *tokens: np.eye(V, dtype=np.float32)[list(tokens)]
PAIRS = {
    **rule_tables.PAIRS,
    'p one-hot': (one_hot(0, 1, 2, 3), distributions(7, 3)),
    'q one-hot': (distributions(8, 4), one_hot(2, 0, 1)),
    'both one-hot, then apart': (one_hot(0, 1, 2, 3), one_hot(0, 1, 3)),
    'ties': (ties, ties[[1, 2, 0]]),
}


@given(p=weights(GAMMA + 1), q=weights(GAMMA), seed=st.integers(0, 2**32 - 1), data=st.data(),
       lenience=st.sampled_from([1.0, 0.6, 0.0]))
def test_equals_plain_python_for_the_same_uniforms(p, q, seed, data, lenience):
  p, q = normal(p), normal(q)
  draft = [data.draw(st.sampled_from(np.flatnonzero(row).tolist())) for row in q]
  key = jax.random.key(seed)
  u_key, next_key = jax.random.split(key)
  n, distribution = reference.verify(p, q, draft, np.asarray(jax.random.uniform(u_key, (GAMMA,))), lenience)
  got_n, got_next = _jitted(p, q, np.array(draft), key, lenience)
  assert got_n == n
  assert distribution[got_next] > 0
  # categorical on logits that differ in the last bit only picks the same token.
  assert got_next == sampling_lib.sample(jnp.asarray(distribution, jnp.float32), next_key)


_jitted = jax.jit(verify)


def draft_and_verify(p, q, key, lenience):
  """Drafts from q and verifies: draft [gamma], num_accepted, next token."""
  draft_key, verify_key = jax.random.split(key)
  draft = jax.random.categorical(draft_key, jnp.log(q)).astype(jnp.int32)
  return draft, *verify(p, q, draft, verify_key, lenience=lenience)


_many = jax.jit(jax.vmap(draft_and_verify, (None, None, 0, None)))


def many(p, q, lenience=1.0, compiled=_many):
  """The same for many keys: drafts [K, gamma], num_accepted [K], next [K]."""
  keys = jax.random.split(jax.random.key(0), KEYS)
  return [np.asarray(x) for x in compiled(p, q, keys, lenience)]


def tokens_distribution(p, draft, n, next_token):
  """Counts [V, V, V, V] of blocks filled up from p where the rule gave fewer than 4 tokens."""
  rng, block = np.random.default_rng(0), np.zeros((KEYS, GAMMA + 1), int)
  for i in range(GAMMA + 1):
    fill = rng.choice(V, KEYS, p=p[i].astype(float) / p[i].astype(float).sum())
    candidate = draft[:, i] if i < GAMMA else fill
    block[:, i] = np.where(i < n, candidate, np.where(i == n, next_token, fill))
  counts = np.zeros([V] * (GAMMA + 1))
  np.add.at(counts, tuple(block.T), 1)
  return counts


def product(p):
  return np.einsum('a,b,c,d->abcd', *p.astype(float))


def beta(p, q, lenience=1.0):
  return np.minimum(p[:GAMMA] / max(lenience, 1e-9), q).sum(-1).astype(float)


@pytest.mark.parametrize('kind', PAIRS)
def test_block_follows_p_and_num_accepted_its_distribution(kind):
  p, q = PAIRS[kind]
  draft, n, next_token = many(p, q)
  assert chisquare.counts(tokens_distribution(p, draft, n, next_token), product(p)) > chisquare.ACCEPT
  b = np.append(beta(p, q), 0.0)
  distribution = np.append(1, np.cumprod(b))[:GAMMA + 1] * (1 - b)
  assert chisquare.counts(np.bincount(n, minlength=GAMMA + 1), distribution.clip(0)) > chisquare.ACCEPT


@pytest.mark.parametrize('kind', ['equal', 'both one-hot, then apart', 'disjoint'])
def test_num_accepted_where_it_is_certain(kind):
  _, n, _ = many(*PAIRS[kind])
  assert set(n) == {{'equal': 3, 'disjoint': 0}.get(kind, 2)}


@pytest.mark.parametrize('lenience', [0.5, 0.1, 0.0])
def test_lenience_accepts_more_and_is_bounded(lenience):
  p, q = PAIRS['random']
  draft, n, next_token = many(p, q, lenience=lenience)
  assert chisquare.counts(tokens_distribution(p, draft, n, next_token), product(p)) < chisquare.REJECT
  b = np.append(beta(p, q, lenience), 0.0)
  distribution = np.append(1, np.cumprod(b))[:GAMMA + 1] * (1 - b)
  assert chisquare.counts(np.bincount(n, minlength=GAMMA + 1), distribution.clip(0)) > chisquare.ACCEPT
  first = np.bincount(np.where(n > 0, draft[:, 0], next_token), minlength=V) / KEYS
  assert (first <= p[0] / max(lenience, 1e-9) + 0.01).all()


def verify_greedy(logits, draft, lenience=1.0):
  """The rule of a chain at temperature 0: num_accepted and next_token."""
  _, *found = _greedy(logits, draft, Tree.chain(len(draft)), lenience if lenience < 1 else None)
  return tuple(map(int, found))


_greedy = jax.jit(verify_greedy_tree, static_argnums=2)


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.7, 0.3, 0.05, 0.0]),
                  st.sampled_from([0.2, 1.0, 5.0]))
def test_greedy_rule_equals_plain_python(seed, lenience, spread):
  random = np.random.default_rng(seed)
  logits = random.normal(0, spread, (GAMMA + 1, V)).astype(np.float32)
  logits[:, 2] = -np.inf  # a masked token
  if seed % 2:
    logits = np.round(logits)  # ties
  draft = random.integers(0, V, GAMMA)
  near = np.where(random.random(GAMMA) < 0.6, logits[:GAMMA].argmax(-1), draft)
  assert verify_greedy(logits, near, lenience) == reference.verify_greedy(logits, near, lenience)


def test_greedy_rule_is_the_rule_for_one_hot_distributions():
  random = np.random.default_rng(0)
  for seed in range(20):
    logits = np.round(random.normal(0, 1, (GAMMA + 1, V)).astype(np.float32))
    draft = np.where(random.random(GAMMA) < 0.6, logits[:GAMMA].argmax(-1), random.integers(0, V, GAMMA))
    p, q = one_hot(*logits.argmax(-1)), distributions(seed, GAMMA)
    assert verify_greedy(logits, draft) == tuple(map(int, _jitted(p, q, draft, jax.random.key(seed))))


def test_greedy_lenience_takes_the_likely_and_never_the_impossible():
  logits = np.log(np.float32([[.5, .3, .2, 1e-45]] * 2)).astype(np.float32)
  logits[:, 3] = -np.inf
  kept = lambda lenience: [int(verify_greedy(logits, np.array([x]), lenience)[0]) for x in range(4)]
  assert kept(1.0) == [1, 0, 0, 0]
  assert kept(0.61) == [1, 0, 0, 0]
  assert kept(0.59) == [1, 1, 0, 0]
  assert kept(0.0) == [1, 1, 1, 0]


def test_broken_residual_is_rejected(monkeypatch):
  monkeypatch.setattr(token_rule, 'residual', lambda p, q: p)
  p, q = PAIRS['random']
  afresh = jax.jit(jax.vmap(lambda *args: draft_and_verify(*args), (None, None, 0, None)))
  blocks = tokens_distribution(p, *many(p, q, compiled=afresh))
  assert chisquare.counts(blocks, product(p)) < chisquare.REJECT


def test_probability_zero_is_never_accepted_even_where_u_is_zero(monkeypatch):
  p, q = PAIRS['disjoint']
  monkeypatch.setattr(jax.random, 'uniform', lambda key, shape, dtype: jnp.zeros(shape, dtype))
  n, next_token = verify(p, q, np.array([2, 3, 2]), jax.random.key(0))
  assert n == 0 and next_token in (0, 1)


def test_equal_distributions_accept_even_where_u_is_largest(monkeypatch):
  p = distributions(9, GAMMA + 1, 4.0)
  monkeypatch.setattr(jax.random, 'uniform', lambda key, shape, dtype: jnp.full(shape, 1 - 2**-23, dtype))
  for token in range(V):
    assert verify(p, p[:GAMMA], np.full(GAMMA, token), jax.random.key(0))[0] == GAMMA


def test_nothing_after_the_first_rejection_counts():
  p, q = one_hot(0, 1, 2, 3), one_hot(3, 1, 2)
  assert tuple(map(int, verify(p, q, np.array([3, 1, 2]), jax.random.key(0)))) == (0, 0)


def test_bonus_token_is_drawn_from_p_unmodified():
  p = np.concatenate([one_hot(0, 1, 2), distributions(10, 1)])
  _, n, next_token = many(p, one_hot(0, 1, 2))
  assert set(n) == {GAMMA}
  assert chisquare.counts(np.bincount(next_token, minlength=V), p[GAMMA]) > chisquare.ACCEPT


def test_residual_of_equal_or_broken_distributions_is_p():
  p = distributions(11, 1)[0]
  np.testing.assert_array_equal(residual(p, p), p)
  np.testing.assert_array_equal(residual(p, np.full(V, np.nan, np.float32)), p)
  np.testing.assert_allclose(residual(np.float32([.5, .5]), np.float32([1, 0])), [0, 1])


def test_draft_distribution_of_nan_costs_only_acceptance():
  p = distributions(12, GAMMA + 1)
  q = np.full((GAMMA, V), np.nan, np.float32)
  _, n, next_token = many(p, q)
  assert set(n) == {0}
  assert chisquare.counts(np.bincount(next_token, minlength=V), p[0]) > chisquare.ACCEPT


def test_uniforms_and_next_token_differ_between_positions_and_keys():
  p, q = PAIRS['random']
  seen = {tuple(map(int, _jitted(p, q, np.array([0, 1, 2]), jax.random.key(s)))) for s in range(60)}
  assert len(seen) > 5


def test_same_alone_under_jit_and_under_vmap():
  p, q = PAIRS['random']
  draft, keys = np.array([0, 1, 2]), jax.random.split(jax.random.key(1), 16)
  rows = jax.vmap(lambda k: verify(p, q, draft, k))(keys)
  for i, key in enumerate(keys):
    assert verify(p, q, draft, key) == _jitted(p, q, draft, key) == (rows[0][i], rows[1][i])


def test_bfloat16_distributions_are_compared_in_float32():
  p, q = (jnp.asarray(x, jnp.bfloat16) for x in PAIRS['random'])
  for seed in range(8):
    args = np.array([0, 1, 2]), jax.random.key(seed)
    assert verify(p, q, *args) == verify(p.astype(jnp.float32), q.astype(jnp.float32), *args)


@pytest.mark.parametrize('options, message', [
    ({'lenience': 1.5}, r'lenience is 1.5; it must be a number in \[0, 1\]'),
    ({'lenience': np.float32(-1)}, 'lenience is -1.0'),
    ({'verification': 'bloc'}, "verification is 'bloc'"),
])
def test_bad_options_are_named(options, message):
  p, q = PAIRS['random']
  with pytest.raises(ValueError, match=message):
    verify(p, q, np.array([0, 1, 2]), jax.random.key(0), **options)


def test_shapes_that_disagree_are_named():
  p, q = PAIRS['random']
  for args in ((p[:3], q, [0, 1, 2]), (p, q, [0, 1]), (p[:1], q[:0], []), (p[:, :3], q, [0, 1, 2])):
    with pytest.raises(ValueError, match=r'verify takes p \[gamma \+ 1, V\]'):
      verify(args[0], args[1], np.array(args[2], int), jax.random.key(0))
