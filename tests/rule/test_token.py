"""The rule of a tree: known values by fractions, plain Python for the same numbers, its distribution by chi-square."""

from fractions import Fraction as F

import chisquare
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings, strategies as st

from specdec_jax.rule import verify_tree
from specdec_jax.sampling import sample_several
from specdec_jax.tree import Tree

TREES = {'chain': Tree.chain(3), 'star': Tree((-1, -1, -1)), 'full': Tree.full((2, 2)), 'spine': Tree.spine(3, 2),
         'uneven': Tree((-1, -1, 0, 0, 0, 1, 2, 6))}
V = 5


@pytest.mark.parametrize('p, q, expected', [
    ((F(1, 2), F(3, 10), F(1, 5)), (F(1, 5), F(3, 10), F(1, 2)), (F(7, 10), F(3, 25), F(9, 50))),
    ((F(1, 2), F(1, 4), F(1, 8), F(1, 16), F(1, 16)), (F(1, 16), F(1, 8), F(1, 4), F(1, 2), F(1, 16)),
     (F(7, 16), F(211, 1152), F(3545, 38016))),
])
def test_how_often_each_child_is_accepted(p, q, expected):
  """By fractions over every order of children, and the rule itself many times over."""
  accepted, out = reference.ranks_accepted(p, q, 3)
  assert tuple(accepted) == expected and tuple(out) == p
  star, size = Tree((-1, -1, -1)), len(p)
  p_rows = jnp.tile(jnp.array(list(map(float, p)), jnp.float32), (4, 1))
  path, count, next_token, tokens = many(star, p_rows, jnp.array([list(map(float, q))], jnp.float32))
  ranks = np.bincount(np.where(count > 0, path[:, 0], 3), minlength=4)
  assert chisquare.counts(ranks, [*map(float, expected), float(1 - sum(expected))]) > chisquare.ACCEPT
  first = np.where(count > 0, np.take_along_axis(tokens, path[:, :1], 1)[:, 0], next_token)
  assert chisquare.counts(np.bincount(first, minlength=size), list(map(float, p))) > chisquare.ACCEPT


def children_tokens(tree, q, key):
  """Tokens of all nodes, the children of each sampled without replacement from its row of q: int32 [M]."""
  tokens = jnp.full(tree.num_nodes, -1, jnp.int32)
  for row, node in enumerate(n for level in tree.expanded for n in level):
    children = tree.children[node + 1]
    children = children[children >= 0]
    tokens = tokens.at[children].set(sample_several(q[row], jax.random.fold_in(key, row), len(children)))
  return tokens


def many(tree, p, q, keys=60_000, tokens_of=children_tokens):
  """Path, num_accepted, next token and the nodes' tokens for many keys."""
  def one(key):
    tokens_key, rule_key = jax.random.split(key)
    tokens = tokens_of(tree, q, tokens_key)
    return *verify_tree(p, q, tokens, tree, rule_key), tokens

  return [np.asarray(x) for x in jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), keys))]


weights = lambda rows: st.lists(st.lists(st.integers(0, 4), min_size=V, max_size=V).filter(any), min_size=rows,
                                max_size=rows)


@pytest.mark.parametrize('name', TREES)
@pytest.mark.parametrize('certain', [False, True])
def test_equals_plain_python_for_the_same_uniforms(name, certain):
  tree = TREES[name]
  parents = sum(len(level) for level in tree.expanded)
  run = jax.jit(lambda p, q, tokens, key: verify_tree(p, None if certain else q, tokens, tree, key))

  @settings(max_examples=40)
  @given(weights(tree.num_nodes + 1), weights(parents), st.integers(0, 2**32 - 1))
  def same(p, q, seed):
    normal = lambda rows: np.array([np.array(r, np.float32) / np.float32(sum(r)) for r in rows])
    p, q = normal(p), normal(q)
    tokens_key, key = jax.random.split(jax.random.key(seed))
    tokens = np.asarray(children_tokens(tree, jnp.asarray(q), tokens_key))
    u = np.asarray(jax.random.uniform(jax.random.split(key)[0], (tree.num_nodes,)), np.float64)
    path, distribution = reference.verify_tree(
        p.astype(float), None if certain else q.astype(float), tokens.tolist(), tree, u)
    got_path, count, next_token = run(p, q, tokens, key)
    assert (count, got_path[:count].tolist()) == (len(path), path)
    assert distribution[int(next_token)] > 0

  same()


def random_rows(seed, rows, spread=1.0):
  logits = spread * np.random.default_rng(seed).normal(size=(rows, V))
  return jnp.asarray(np.exp(logits) / np.exp(logits).sum(-1, keepdims=True), jnp.float32)


def first_tokens(tree, path, count, next_token, tokens):
  """The first token that comes out of each block."""
  return np.where(count > 0, np.take_along_axis(tokens, path[:, :1], 1)[:, 0], next_token)


@pytest.mark.parametrize('name', ['star', 'full', 'uneven'])
def test_the_first_token_follows_p_and_the_second_its_own(name):
  """Each node has a p of its own; what follows an accepted node follows that node's p."""
  tree = TREES[name]
  p, q = random_rows(0, tree.num_nodes + 1, 1.5), random_rows(1, sum(map(len, tree.expanded)), 1.5)
  path, count, next_token, tokens = many(tree, p, q)
  first = first_tokens(tree, path, count, next_token, tokens)
  assert chisquare.counts(np.bincount(first, minlength=V), p[0]) > chisquare.ACCEPT
  if tree.depth < 2:
    return
  for node in tree.levels[0]:  # given that this node was accepted
    there = (count > 0) & (path[:, 0] == node)
    second = np.where(count > 1, np.take_along_axis(tokens, path[:, 1:2], 1)[:, 0], next_token)[there]
    assert chisquare.counts(np.bincount(second, minlength=V), p[node + 1]) > chisquare.ACCEPT


def drop_children(keep):
  """Children that are dropped, or put in another order, for what they are: the rest keep their places."""
  def tokens_of(tree, q, key):
    return keep(children_tokens(tree, q, key), q[0])
  return tokens_of


BIASED = {
    'drops its less probable children': lambda tokens, q: jnp.where(q[tokens] >= 0.15, tokens, -1),
    'puts the most probable first': lambda tokens, q: tokens[jnp.argsort(-q[tokens])],
}


@pytest.mark.parametrize('name', BIASED)
def test_children_chosen_for_what_they_are_are_rejected(name):
  star = Tree((-1, -1, -1))
  p = jnp.tile(jnp.array([0.34, 0.28, 0.2, 0.12, 0.06], jnp.float32), (4, 1))
  q = jnp.array([[0.05, 0.1, 0.15, 0.3, 0.4]], jnp.float32)
  path, count, next_token, tokens = many(star, p, q)
  first = first_tokens(star, path, count, next_token, tokens)
  assert chisquare.counts(np.bincount(first, minlength=V), p[0]) > chisquare.ACCEPT
  path, count, next_token, tokens = many(star, p, q, tokens_of=drop_children(BIASED[name]))
  first = first_tokens(star, path, count, next_token, np.maximum(tokens, 0))
  assert chisquare.counts(np.bincount(first, minlength=V), p[0]) < chisquare.REJECT


def test_a_void_child_and_those_after_it_are_passed_over():
  star = Tree((-1, -1, -1))
  p, q = jnp.tile(random_rows(3, 1), (4, 1)), jnp.array([[0.5, 0.5, 0, 0, 0]], jnp.float32)
  tokens = children_tokens(star, q, jax.random.key(0))
  assert sorted(tokens.tolist()) == [-1, 0, 1]
  path, count, next_token, tokens = many(star, p, q)
  first = first_tokens(star, path, count, next_token, tokens)
  assert chisquare.counts(np.bincount(first, minlength=V), p[0]) > chisquare.ACCEPT
  assert set(path[count > 0, 0]) <= {0, 1}


def test_distributions_that_are_not_finite_cost_only_acceptance():
  tree = Tree.full((2, 2))
  p = random_rows(4, 7)
  _, count, next_token, _ = many(tree, p, jnp.full((3, V), jnp.nan), keys=20_000,
                                 tokens_of=lambda *unused: jnp.array([0, 1, 2, 3, 0, 4]))
  assert set(count) == {0}
  assert chisquare.counts(np.bincount(next_token, minlength=V), p[0]) > chisquare.ACCEPT
