"""All figures of one sampling, gamma and lenience, from what was timed and measured."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from specdec_jax.analysis import alpha as alpha_lib, cost as cost_lib, operations, theory
from specdec_jax.jobs.batching import Batch
from specdec_jax.measure import agreement
from specdec_jax.measure.timing import Timed, total


def figures(target, batches: Sequence[Batch], groups, alone: Timed, speculative: Timed,
            of_t5x: Timed | None, alpha: alpha_lib.Alpha, cost: cost_lib.Cost) -> dict:
  """JSON-ready; seconds and tokens/s are walltime.

  Args:
    target: the `Model`.
    batches: what was decoded.
    groups: str [number of batches], the group of inputs that each belongs to.
    alone, speculative: the one-token baseline and the method beside it, same sampling.
    of_t5x: T5X's own decode, where it was timed.
    alpha: of the method's drafter, sampling and lenience.
    cost: of its drafter and gamma.
  """
  method = speculative.method
  gamma, c_hat = method.gamma, operations.operations_ratio(target, method.drafter)
  counts = {n: speculative.count(n, batches)
            for n in ('target_calls', 'drafted', 'accepted', 'emitted')}
  iterations = [int(r.stats.target_calls.max()) for r in speculative.results]
  everything = speeds(batches, alone, speculative, slice(None))
  fast, t5x = everything['speculative'], of_t5x and speed(batches, of_t5x)
  return {
      'sampling': dataclasses.asdict(method.sampling), 'gamma': gamma, 'lenience': method.lenience,
      **everything, 't5x': t5x,
      'speed_up_over_t5x': t5x and fast['tokens_per_second'] / t5x['tokens_per_second'],
      'alpha': alpha.alpha, 'alpha_standard_error': finite(alpha.standard_error),
      'alpha_tokens': alpha.num_tokens,
      'acceptance_rate': counts['accepted'] / max(counts['drafted'], 1), **counts,
      **{n: total(n, batches, speculative.results).tolist()
         for n in ('accepted_by_position', 'drafted_by_position')},
      'expected_tokens_per_call': theory.expected_tokens(alpha.alpha, gamma),
      'c': cost.c, 'verify_cost': cost.verify_cost, 'cost_seconds': dataclasses.asdict(cost),
      'predicted_speed_up': theory.walltime_improvement(alpha.alpha, gamma, cost.c),
      'predicted_speed_up_with_verify_cost':
          theory.walltime_improvement(alpha.alpha, gamma, cost.c, cost.verify_cost),
      'best_gamma': theory.optimal_gamma(alpha.alpha, cost.slope),
      'c_hat': c_hat, 'operations_factor': theory.operations_increase(alpha.alpha, gamma, c_hat),
      'explained_time': (sum(map(cost.decode_seconds, iterations))
                         / fast['seconds']),
      'warm_up_seconds': [alone.warm_up_seconds, speculative.warm_up_seconds],
      'groups': {name: speeds(batches, alone, speculative, np.asarray(groups) == name)
                 for name in dict.fromkeys(groups)}}


def speed(batches: Sequence[Batch], timed: Timed, which=slice(None)) -> dict:
  """Tokens, seconds and tokens/s of one method over some of the batches."""
  members = np.arange(len(batches))[which]
  tokens = sum(int(timed.results[b].lengths[:len(batches[b].indices)].sum()) for b in members)
  seconds = float(timed.seconds[members].sum())
  return {'tokens': tokens, 'seconds': seconds, 'tokens_per_second': tokens / seconds}


def speeds(batches, alone: Timed, speculative: Timed, which) -> dict:
  """Both decoders over some of the batches."""
  members = np.arange(len(batches))[which]
  slow, fast = (speed(batches, timed, members) for timed in (alone, speculative))
  calls = sum(int(speculative.results[b].stats.target_calls[:len(batches[b].indices)].sum())
              for b in members)
  return {
      'inputs': sum(len(batches[b].indices) for b in members),
      'target_alone': slow, 'speculative': fast,
      'speed_up': fast['tokens_per_second'] / slow['tokens_per_second'],
      'tokens_per_call': fast['tokens'] / max(calls, 1)}


def outputs(target, inputs, batches, alone: Timed, speculative: Timed, tie_margin) -> dict:
  """At temperature 0 whether the texts are identical; above it only their distribution is the same.

  With lenience below 1 neither holds, whatever the texts.
  """
  if speculative.method.lenience < 1:
    return {'relation': f'inexact (lenience {speculative.method.lenience:g})'}
  if not alone.method.sampling.greedy:
    return {'relation': 'same distribution'}
  found = agreement.differences(target, inputs, batches, alone.results, speculative.results)
  wrong = agreement.not_ties(found, target.config.dtype, tie_margin)
  relation = 'identical' if not found else 'different' if wrong else 'identical but for ties'
  as_dicts = lambda ds: [{**dataclasses.asdict(d), 'margin': finite(d.margin)} for d in ds]
  return {'relation': relation, 'different': as_dicts(found), 'not_ties': as_dicts(wrong)}


def texts(target, batches, timed: Timed) -> list[str]:
  """What a method said, in the order of the inputs."""
  said = {}
  for batch, result in zip(batches, timed.results):
    said.update(zip(batch.indices.tolist(), target.decode(result.tokens)))
  return [said[i] for i in range(len(said))]


def finite(value: float) -> float | None:
  return float(value) if np.isfinite(value) else None
