"""One large chip measured: the memory's speed, passes over 1 to 64 tokens, c, and whole decodes at the paper's alphas.

Weights are random, which changes no time; drafts are `Synthetic`, so that they agree as often as Table 2's did.
"""

import time
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from specdec_jax.analysis import cost as cost_lib, reliability, theory
from specdec_jax.benchmarks import bandwidth
from specdec_jax.benchmarks.random_weights import random_model
from specdec_jax.benchmarks.synthetic import Synthetic
from specdec_jax.decoding import autoregressive_decode, speculative_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs.progress import Progress
from specdec_jax.reports import paper
from specdec_jax.sampling import Sampling
from specdec_jax.tpu.acceptance import acceptance_by_rank
from specdec_jax.tree import Tree

_READ = 2 ** 31  # bytes of the array whose reading is timed
_GREEDY = Sampling(temperature=0.0)


class Clock:
  """The time that a benchmark may take: what does not begin before its end is left out, and named."""

  def __init__(self, seconds: float):
    self._end = time.monotonic() + seconds
    self.left_out: list[str] = []

  def allows(self, what: str) -> bool:
    """Whether there is time left for something."""
    if time.monotonic() < self._end:
      return True
    self.left_out.append(what)
    return False


def measure(target_name: str, draft_names: Sequence[str], *, dtype: str = 'bfloat16', batch: int = 1,
            input_length: int = 128, max_decode_len: int = 128, widths: Sequence[int] = (1, 3, 7, 15, 31, 63),
            nodes: int = 63, depth: int = 7, repeats: int = 3, seconds: float = 600) -> dict:
  """Measures it all, JSON-ready; what there was no time for is in 'left_out'.

  Args:
    target_name, draft_names: of `models.known`.
    dtype: of the weights, 'bfloat16' or 'float32'.
    batch, input_length, max_decode_len: shapes.
    widths: draft tokens of the verify passes that are timed; one more token is fed with them.
    nodes, depth: of the trees that are decoded with.
    repeats: of the whole decodes, of which the median counts.
    seconds: no measurement begins after so many.
  """
  clock = Clock(seconds)
  with Progress(None, target_name, 'step') as progress:
    progress.next('making weights')
    target = random_model(target_name, dtype)
    tokens = np.random.default_rng(0).integers(2, target.config.vocab_size // 2, (batch, input_length), np.int32)
    size = bandwidth.weight_bytes(target)
    progress.next("timing the memory's speed")
    speed = bandwidth.bytes_per_second(min(size, _READ), dtype)
    found: dict[str, Any] = {
        'target': target_name, 'dtype': dtype, 'batch': batch, 'input_length': input_length,
        'max_decode_len': max_decode_len, 'repeats': repeats, 'weight_bytes': size, 'bytes_per_second': speed,
        'limit_step_seconds': size / speed, 'passes': [], 'drafts': [], 'decodes': []}
    progress.next('decoding with the target alone')
    alone_seconds, texts = _decode(repeats, lambda: autoregressive_decode(
        target, tokens, sampling=_GREEDY, max_decode_len=max_decode_len))
    found['alone'] = {'seconds': alone_seconds, 'tokens': int(texts.lengths.sum())}
    for i, name in enumerate(draft_names):
      if not clock.allows(f'the draft {name}'):
        continue
      progress.next(f'making weights of {name}')
      inner = ModelDrafter(random_model(name, dtype, seed=i + 1))
      planned = list(_planned(name, nodes, depth))
      shapes = [shape for _, shape in planned] + [Tree.spine(1, w) for w in widths if not found['passes']]
      costs = cost_lib.measure(target, inner, tokens, list(dict.fromkeys(shapes)), _GREEDY,
                               max_decode_len=max_decode_len, tell=progress.next)
      found['drafts'].append({'draft': name, **_draft(costs[shapes[0]])})
      if not found['passes']:
        found |= _passes(costs, widths, size / speed)
      for row, shape in planned:
        what = f'{name}, {shape.name}, alpha {row.alpha:g}'
        if not clock.allows(what):
          continue
        progress.next(f'decoding with {what}')
        drafter = Synthetic(inner, texts.tokens, acceptance_by_rank(row.alpha))
        took, result = _decode(repeats, lambda drafter=drafter, shape=shape: speculative_decode(
            target, drafter, tokens, tree=shape, sampling=_GREEDY, max_decode_len=max_decode_len))
        found['decodes'].append(_decoded(row, name, shape, took, result, texts, alone_seconds, costs[shape]))
  return {**found, 'left_out': clock.left_out}


def _rows(draft_name: str) -> list[paper.Experiment]:
  """Table 2's at temperature 0 with a draft of this size."""
  return [row for row in paper.TABLE_2 if row.temperature == 0 and draft_name.endswith('_' + row.draft.split('-')[-1])]


def _planned(draft_name: str, nodes: int, depth: int):
  """Each row with its chain, and the tree for its alpha; a size that the paper lacks gets the first row's figures."""
  for row in _rows(draft_name) or [paper.TABLE_2[0]]:
    yield row, Tree.chain(row.gamma)
    yield row, theory.best_tree(acceptance_by_rank(row.alpha), nodes, depth)


def _decode(repeats: int, run):
  """Median seconds of a compiled decode, and its result on the host."""
  result = run()
  seconds = []
  for _ in range(repeats):
    start = time.perf_counter()
    result = jax.device_get(run())
    seconds.append(time.perf_counter() - start)
  return float(np.median(seconds)), result


def _draft(cost: cost_lib.Cost) -> dict:
  return {'c': cost.c, 'step_seconds': cost.draft_step, 'encoder_seconds': cost.draft_encoder}


def _passes(costs, widths, limit: float) -> dict:
  """Times of the target's passes, and what contradicts itself in them."""
  wide = [costs[Tree.spine(1, width)] for width in widths]
  step = wide[0].target_step
  passes = [{'tokens': 1, 'seconds': step, 'verify_cost': 1.0, 'of_limit': limit / step}]
  passes += [{'tokens': c.nodes + 1, 'seconds': c.verify_pass, 'verify_cost': c.verify_cost,
              'of_limit': limit / c.verify_pass} for c in wide]
  reasons = reliability.of_repeats({f'a pass over {c.nodes + 1} tokens': c.spread for c in wide})
  return {'passes': passes, 'encoder_seconds': wide[0].target_encoder, 'unreliable': reasons}


def _decoded(row, name, shape, took, result, texts, alone_seconds, cost) -> dict:
  """A decode beside theory and paper."""
  per_call = float(result.lengths.sum() / result.stats.target_calls.sum())
  expected = theory.expected_tokens(acceptance_by_rank(row.alpha), tree=shape)
  return {'task': row.task, 'draft': name, 'shape': shape.name, 'nodes': shape.num_nodes, 'alpha': row.alpha,
          'seconds': took, 'tokens_per_call': per_call, 'speed_up': alone_seconds / took,
          'same_texts': bool((result.tokens == texts.tokens).all()),
          'predicted': float(theory.speed_up(expected, shape.depth, cost.c, cost.verify_cost)),
          'paper': row.speed_up if shape == Tree.chain(row.gamma) else None}
