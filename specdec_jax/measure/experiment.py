"""All figures of one sampling, draft and rule, from what was timed and measured."""

import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from specdec_jax.analysis import alpha as alpha_lib, cost as cost_lib, expected, operations, reliability, theory
from specdec_jax.analysis.ranks import Ranks
from specdec_jax.errors import RunFailed
from specdec_jax.jobs.batching import Batch
from specdec_jax.measure import agreement
from specdec_jax.measure.timing import Timed, total
from specdec_jax.results import acceptance_rate
from specdec_jax.tree import Tree


def figures(target, batches: Sequence[Batch], groups, alone: Timed, speculative: Timed,
            of_t5x: Timed | None, alpha: alpha_lib.Alpha, costs: Mapping[int | Tree, cost_lib.Cost],
            ranks: Ranks | None = None) -> dict:
  """JSON-ready; seconds and tokens/s are walltime.

  Args:
    target: the `Model`.
    batches: what was decoded.
    groups: str [number of batches], the group of inputs that each belongs to.
    alone, speculative: the one-token baseline and the method beside it, same sampling.
    of_t5x: T5X's own decode, where it was timed.
    alpha: of the method's drafter, sampling and lenience.
    costs: of its drafter, by every gamma and tree that was measured.
    ranks: of its drafter and sampling; for a tree.
  """
  method = speculative.method
  shape, c_hat = method.shape, operations.operations_ratio(target, method.drafter)
  cost = costs[method.gamma_or_tree]
  by_rank = None if ranks is None else ranks.acceptance
  expected_tokens = float(theory.expected_tokens(alpha.alpha, method.gamma) if by_rank is None or method.gamma else
                          theory.expected_tokens(by_rank, tree=shape))
  counts = {n: speculative.count(n, batches)
            for n in ('target_calls', 'drafted', 'accepted', 'emitted')}
  everything, t5x = speeds(batches, alone, speculative), of_t5x and speed(batches, of_t5x)
  checked = timings(alone, speculative, of_t5x, everything, cost, c_hat)
  measured = [(c.gamma, c.c, c.verify_cost) for c in costs.values() if c.gamma == c.nodes]
  predicted = functools.partial(theory.speed_up, expected_tokens, cost.gamma, cost.c)
  return {
      'sampling': dataclasses.asdict(method.sampling), 'gamma': method.gamma,
      'tree': method.tree and list(method.tree.parents), 'verification': method.verification,
      'lenience': method.lenience,
      **everything, 't5x': t5x,
      'speed_up_over_t5x': t5x and everything['speculative']['tokens_per_second'] / t5x['tokens_per_second'],
      'alpha': alpha.alpha, 'alpha_standard_error': finite(alpha.standard_error),
      'alpha_tokens': alpha.num_tokens,
      'acceptance_rate': acceptance_rate(counts['accepted'], counts['drafted']), **counts,
      **{n: total(n, batches, speculative.results).tolist()
         for n in ('accepted_by_position', 'drafted_by_position', 'accepted_by_rank', 'offered_by_rank')},
      'acceptance_by_rank': by_rank, 'expected_tokens_per_call': expected_tokens,
      'c': cost.c, 'verify_cost': cost.verify_cost, 'cost_seconds': dataclasses.asdict(cost),
      'predicted_speed_up': predicted(), 'predicted_speed_up_with_verify_cost': predicted(cost.verify_cost),
      'best_gamma': expected.best_gamma(alpha.alpha, measured) if checked['reliable'] and method.gamma else None,
      'c_hat': c_hat, 'operations_factor': operations.operations_factor(shape, expected_tokens, c_hat),
      'timings': checked,
      'warm_up_seconds': [alone.warm_up_seconds, speculative.warm_up_seconds],
      'groups': {name: speeds(batches, alone, speculative, np.asarray(groups) == name)
                 for name in dict.fromkeys(groups)}}


def timings(alone: Timed, speculative: Timed, of_t5x: Timed | None, everything: dict, cost: cost_lib.Cost,
            c_hat: float) -> dict:
  """Whether the timings agree with each other, JSON-ready.

  Args:
    alone, speculative, of_t5x, cost: as in `figures`.
    everything: `speeds` of all batches.
    c_hat: as in `theory`.

  Returns:
    reliable, and the reasons why not; spread of the repeats by what was timed; explained, what the parts timed
    alone add up to over the time of each decoder; speed_up_by_parts, what they make of the speed-up.
  """
  steps = lambda timed: [int(r.stats.target_calls.max()) for r in timed.results]  # of each batch's longest row
  explained = {
      'target alone': sum(map(cost.alone_seconds, steps(alone))) / everything['target_alone']['seconds'],
      'speculative': sum(map(cost.decode_seconds, steps(speculative))) / everything['speculative']['seconds']}
  by_parts = everything['speed_up'] * explained['target alone'] / explained['speculative']
  spreads = {'target alone': alone.spread, 'speculative': speculative.spread, 'parts of an iteration': cost.spread,
             **({'T5X': of_t5x.spread} if of_t5x else {})}
  reasons = [*reliability.of_repeats(spreads),
             *reliability.of_cost(cost.nodes, cost.c, cost.verify_cost, c_hat),
             *reliability.of_whole(explained, everything['speed_up'], by_parts)]
  return {'reliable': not reasons, 'reasons': reasons, 'spread': spreads, 'explained': explained,
          'speed_up_by_parts': by_parts}


def speed(batches: Sequence[Batch], timed: Timed, which=slice(None)) -> dict:
  """Tokens, seconds and tokens/s of one method over some of the batches."""
  members = np.arange(len(batches))[which]
  tokens = sum(int(timed.results[b].lengths[:len(batches[b].indices)].sum()) for b in members)
  seconds = float(timed.seconds[members].sum())
  return {'tokens': tokens, 'seconds': seconds, 'tokens_per_second': tokens / seconds}


def speeds(batches, alone: Timed, speculative: Timed, which=slice(None)) -> dict:
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
  lenience = speculative.method.lenience
  if lenience is not None and lenience < 1:
    return {'relation': f'inexact (lenience {lenience:g})'}
  if not alone.method.sampling.greedy:
    return {'relation': 'same distribution'}
  found = agreement.differences(target, inputs, batches, alone.results, speculative.results)
  wrong = agreement.not_ties(found, target.config.dtype, tie_margin)
  relation = 'identical' if not found else 'different' if wrong else 'identical but for ties'
  as_dicts = lambda ds: [{**dataclasses.asdict(d), 'margin': finite(d.margin)} for d in ds]
  return {'relation': relation, 'different': as_dicts(found), 'not_ties': as_dicts(wrong)}


def texts(target, batches, timed: Timed) -> list[str]:
  """What a method generated, in the order of the inputs."""
  found = {}
  for batch, result in zip(batches, timed.results):
    found.update(zip(batch.indices.tolist(), target.decode(result.tokens, result.lengths)))
  return [found[i] for i in range(len(found))]


def finite(value: float) -> float | None:
  return float(value) if np.isfinite(value) else None


def check_exact(outputs: Iterable[tuple[str, Mapping]]) -> None:
  """RunFailed where greedy texts are not the target's own: names of drafts, each with what `outputs` found."""
  wrong = [name for name, found in outputs if found.get('not_ties')]
  if wrong:
    raise RunFailed(f"greedy texts with {', '.join(wrong)} differ from the target's own where its two largest logits "
                    'do not tie; speculative decoding is not exact here, please report it.')
