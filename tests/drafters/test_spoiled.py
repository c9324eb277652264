"""Spoiled drafts keep sizes and the real ids apart from padding, and lose what was learnt."""

import numpy as np
import tiny

from specdec_jax.drafters.spoiled import random_weights, shuffled_rows


def flat(model):
  import jax
  return [np.asarray(x) for x in jax.tree.leaves(model.params)]


def test_random_weights_are_the_same_numbers_elsewhere():
  model = tiny.random_t5(0)
  for a, b in zip(flat(model), flat(random_weights(model)), strict=True):
    np.testing.assert_array_equal(np.sort(a.ravel()), np.sort(b.ravel()))
    assert a.size < 8 or not np.array_equal(a, b)


def test_shuffled_rows_change_the_embedding_alone():
  model = tiny.random_t5(0)
  spoiled = shuffled_rows(model)
  before, after = (np.asarray(m.params['token_embedder']['embedding']) for m in (model, spoiled))
  assert sum(not np.array_equal(a, b) for a, b in zip(flat(model), flat(spoiled))) == 1
  moved = (before != after).any(1)
  assert moved[:tiny.PIECES].sum() > tiny.PIECES // 2 and not moved[tiny.PIECES:].any()
  np.testing.assert_array_equal(np.sort(before, axis=0), np.sort(after, axis=0))
