"""Distributions p [4, V] and q [3, V] over four tokens, such as the tests of all rules for chains take."""

import numpy as np
from hypothesis import strategies as st

V, GAMMA = 4, 3


def distributions(seed, rows, spread=1.0):
  logits = spread * np.random.default_rng(seed).normal(size=(rows, V))
  return (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)


def weights(rows):
  """Small whole numbers [rows, V], no row of zeros alone: distributions once they are `normal`."""
  return st.lists(st.lists(st.integers(0, 4), min_size=V, max_size=V).filter(any), min_size=rows, max_size=rows)


def normal(rows):
  return np.array([np.array(r, np.float32) / np.float32(sum(r)) for r in rows])


PAIRS = {
    'random': (distributions(0, 4), distributions(1, 3)),
    'sharp against flat': (distributions(2, 4, 3.0), distributions(3, 3, 0.3)),
    'flat against sharp': (distributions(4, 4, 0.3), distributions(5, 3, 3.0)),
    'equal': (distributions(6, 4), distributions(6, 4)[:3]),
    'disjoint': (np.array([[.3, .7, 0, 0]] * 4, np.float32), np.array([[0, 0, .6, .4]] * 3, np.float32)),
}
