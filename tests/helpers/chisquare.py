"""How likely counts are under an exact distribution: p-values (small means the distribution is another)."""

import numpy as np
from scipy import stats

ACCEPT = 1e-4  # tests run with fixed seeds; a right distribution lands below this once in 10,000
REJECT = 1e-12


def texts(tokens, lengths, distribution: dict[tuple[int, ...], float]) -> float:
  """Rows [B, L] against the distribution of whole texts."""
  rows = [tuple(row[:n]) for row, n in zip(np.asarray(tokens).tolist(), lengths)]
  seen = {}
  for row in rows:
    seen[row] = seen.get(row, 0) + 1
  if any(distribution.get(row, 0.0) == 0.0 for row in seen):
    return 0.0
  keys = list(distribution)
  return counts([seen.get(k, 0) for k in keys], [distribution[k] for k in keys])


def counts(observed, distribution) -> float:
  """Counts [K] against probabilities [K]; rare outcomes are taken together."""
  observed, distribution = np.asarray(observed, float).ravel(), np.asarray(distribution, float).ravel()
  if observed[distribution == 0].any():
    return 0.0
  order = np.argsort(-distribution)
  expected, observed = distribution[order] * observed.sum() / distribution.sum(), observed[order]
  common = max(int((expected >= 10).sum()), 1)
  if common < len(expected) and expected[common:].sum() < 10:
    common = max(common - 1, 1)
  expected = np.append(expected[:common], expected[common:].sum())
  observed = np.append(observed[:common], observed[common:].sum())
  keep = expected > 1e-6
  if observed[~keep].any():
    return 0.0
  return float(stats.chisquare(observed[keep], expected[keep]).pvalue) if keep.sum() > 1 else 1.0


def conditional(observed, distribution) -> float:
  """Counts [..., K] against the distribution of the last axis given the others."""
  observed, distribution = np.asarray(observed, float), np.asarray(distribution, float)
  expected = observed.sum(-1, keepdims=True) * distribution
  usable = (expected >= 5).all(-1)
  statistic = ((observed - expected)[usable] ** 2 / expected[usable]).sum()
  return float(stats.chi2.sf(statistic, usable.sum() * (distribution.shape[-1] - 1)))
