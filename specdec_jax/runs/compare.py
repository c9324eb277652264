"""The compare run: the target alone and speculative decoding, over the same examples."""

from collections.abc import Iterable, Sequence
import dataclasses
from typing import Any

import gin
import numpy as np

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.analysis import cost as cost_lib
from specdec_jax.analysis import operations
from specdec_jax.analysis import theory
from specdec_jax.model import Model
from specdec_jax.runs import agreement
from specdec_jax.runs import batching
from specdec_jax.runs import output
from specdec_jax.runs import report
from specdec_jax.runs.methods import Method
from specdec_jax.runs.timing import time_methods
from specdec_jax.sampling import Sampling


def compare(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable = gin.REQUIRED,
            drafter: Any = gin.REQUIRED, gammas: Sequence[int] = (7,),
            samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)),
            seed: int = 0, batch_size: int = 1, repeats: int = 1, max_decode_len: int = 128,
            max_input_len: int = 512, long_inputs: str = 'refuse', prefix: str = '',
            buckets: Sequence[int] = (), short_input_len: int = 32, alpha_tokens: int = 10_000,
            tie_margin: float | None = None, shown_examples: int = 3) -> dict:
  """Writes report.json and report.md into output_dir and prints the table.

  Tokens are counted by the decoders' own lengths, EOS included, in both. Every shape
  is warmed up before it is timed, and the two take turns, batch by batch.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, batch_size, max_decode_len, max_input_len, long_inputs,
      prefix, buckets: as in `decode`.
    drafter: what drafts.
    gammas: draft lengths to compare, each at every sampling.
    samplings: temperature, top-k and top-p settings.
    repeats: timings of each batch; their median counts.
    short_input_len: inputs up to this many tokens are reported apart from longer ones.
    alpha_tokens: how much of the target's own text alpha is measured on, at most.
    tie_margin: difference of logits up to which a greedy difference is a tie;
      by the target's dtype where None.
    shown_examples: how many texts are printed.

  Returns:
    The report.

  Raises:
    output.RunFailed: greedy texts differ where the target's two largest logits do
      not tie; the report is written first.
  """
  if not gammas or not samplings:
    raise ValueError('compare needs at least one gamma and one sampling; set compare.gammas and '
                     'compare.samplings.')
  common = dict(max_decode_len=max_decode_len, seed=seed)
  methods = {s: [Method(sampling=s, **common)] + [
      Method(drafter=drafter, gamma=g, sampling=s, **common) for g in gammas] for s in samplings}
  inputs = batching.encode(target, examples, max_input_len, long_inputs, prefix)
  short = np.array([len(row) <= short_input_len for row in inputs.rows])
  batches_of = lambda members: batching.batches(
      inputs, batch_size, max_input_len, np.flatnonzero(members), buckets)
  grouped = {'short': batches_of(short), 'long': batches_of(~short)}
  batches = [b for group in grouped.values() for b in group]
  group_of_batch = np.array([name for name, group in grouped.items() for _ in group])
  target.check_tokens(batches[0].tokens)
  drafter.check(target)

  experiments, shown = [], []
  for sampling, to_time in methods.items():
    timed = time_methods(target, to_time, batches, repeats, report.sampling_name(sampling))
    alone = timed[0]
    measured = _alpha(target, drafter, batches, alone, sampling, alpha_tokens)
    costs = _costs(target, drafter, batches, alone, gammas, sampling, max_decode_len)
    for speculative in timed[1:]:
      experiment = _experiment(
          target, drafter, batches, group_of_batch, alone, speculative, measured,
          costs[speculative.method.gamma])
      experiment['outputs'] = _outputs(target, inputs, batches, alone, speculative, tie_margin)
      experiments.append(experiment)
    shown.append((sampling, _texts(target, inputs, batches, timed[:2], shown_examples)))

  result = {'target': report.describe(target), 'drafter': drafter.name,
            'examples': len(inputs.rows), 'cut_inputs': inputs.cut,
            'batch_size': batch_size, 'repeats': repeats, 'short_input_len': short_input_len,
            'max_decode_len': max_decode_len, 'device': output.environment()['device'],
            'experiments': experiments,
            'texts': [{'sampling': dataclasses.asdict(s), 'examples': t} for s, t in shown]}
  output.write_json(output_dir, 'report.json', result)
  text = report.markdown(result)
  output.write(output_dir, 'report.md', text)
  print(text)
  wrong = [d for e in experiments for d in e['outputs'].get('not_ties', [])]
  if wrong:
    raise output.RunFailed(
        f"{len(wrong)} greedy texts differ from the target's own where its two largest logits do "
        f"not tie, first in example {wrong[0]['id']} at token {wrong[0]['position']} (margin "
        f"{wrong[0]['margin']}); speculative decoding is not exact here, please report it.")
  return result


def _alpha(target, drafter, batches, alone, sampling, num_tokens) -> alpha_lib.Alpha:
  """Cor. 3.6 over the text that the baseline generated just now, inputs in a random order."""
  rows = [(b, row) for b, batch in enumerate(batches) for row in range(len(batch.indices))]
  of_bucket, counts = {}, []
  for place in np.random.default_rng(0).permutation(len(rows)):
    b, row = rows[place]
    result = alone.results[b]
    of_bucket.setdefault(batches[b].tokens.shape[1], []).append(
        (batches[b].tokens[row], result.tokens[row], result.lengths[row]))
    counts.append(int(result.lengths[row]))
    if sum(counts) >= num_tokens:
      break
  sums, counts = [], []
  for texts in of_bucket.values():
    tokens, emitted, lengths = map(np.stack, zip(*texts))
    sums += alpha_lib.text_betas(target, drafter, tokens, emitted, lengths, sampling).tolist()
    counts += lengths.tolist()
  return alpha_lib.estimate(sums, counts)


def _costs(target, drafter, batches, alone, gammas, sampling, max_decode_len):
  """Timed on a batch of middling length, in the middle of a text of mean length."""
  rows = sum(len(b.indices) for b in batches)
  position = min(alone.count('emitted', batches) // rows // 2, max_decode_len - 1)
  by_length = sorted(batches, key=lambda b: (b.tokens > 0).sum())
  return cost_lib.measure(target, drafter, by_length[len(batches) // 2].tokens, gammas, sampling,
                          max_decode_len=max_decode_len, position=position)


def _experiment(target, drafter, batches, group_of_batch, alone, speculative, measured,
                cost) -> dict:
  """All figures of one sampling and gamma, JSON-ready; seconds and tokens/s are walltime."""
  gamma, alpha = cost.gamma, measured.alpha
  c_hat = operations.operations_ratio(target, drafter)
  counts = {n: speculative.count(n, batches)
            for n in ('target_calls', 'drafted', 'accepted', 'emitted')}
  iterations = [int(r.stats.target_calls.max()) for r in speculative.results]
  everything = _speeds(batches, alone, speculative, slice(None))
  names = list(dict.fromkeys(group_of_batch.tolist()))
  return {
      'sampling': dataclasses.asdict(alone.method.sampling), 'gamma': gamma,
      **everything,
      'alpha': alpha, 'alpha_standard_error': _finite(measured.standard_error),
      'alpha_tokens': measured.num_tokens,
      'acceptance_rate': counts['accepted'] / max(counts['drafted'], 1), **counts,
      'expected_tokens_per_call': theory.expected_tokens(alpha, gamma),
      'c': cost.c, 'verify_cost': cost.verify_cost, 'cost_seconds': dataclasses.asdict(cost),
      'predicted_speed_up': theory.walltime_improvement(alpha, gamma, cost.c),
      'predicted_speed_up_with_verify_cost':
          theory.walltime_improvement(alpha, gamma, cost.c, cost.verify_cost),
      'best_gamma': theory.optimal_gamma(alpha, cost.slope),
      'c_hat': c_hat, 'operations_factor': theory.operations_increase(alpha, gamma, c_hat),
      'explained_time': (sum(map(cost.decode_seconds, iterations))
                         / everything['speculative']['seconds']),
      'warm_up_seconds': [alone.warm_up_seconds, speculative.warm_up_seconds],
      'groups': {n: _speeds(batches, alone, speculative, group_of_batch == n) for n in names}}


def _speeds(batches, alone, speculative, which) -> dict:
  """Both decoders over some of the batches."""
  members = np.arange(len(batches))[which]
  pick = lambda timed: (
      sum(int(timed.results[b].lengths[:len(batches[b].indices)].sum()) for b in members),
      float(timed.seconds[members].sum()))
  (tokens, seconds), (fast_tokens, fast_seconds) = pick(alone), pick(speculative)
  calls = sum(int(speculative.results[b].stats.target_calls[:len(batches[b].indices)].sum())
              for b in members)
  return {
      'inputs': sum(len(batches[b].indices) for b in members),
      'target_alone': {'tokens': tokens, 'seconds': seconds, 'tokens_per_second': tokens / seconds},
      'speculative': {'tokens': fast_tokens, 'seconds': fast_seconds,
                      'tokens_per_second': fast_tokens / fast_seconds},
      'speed_up': (fast_tokens / fast_seconds) / (tokens / seconds),
      'tokens_per_call': fast_tokens / max(calls, 1)}


def _outputs(target, inputs, batches, alone, speculative, tie_margin) -> dict:
  """At temperature 0 whether the texts are identical; above it only their law is the same."""
  if not alone.method.sampling.greedy:
    return {'relation': 'same law'}
  found = agreement.differences(target, inputs, batches, alone.results, speculative.results)
  wrong = agreement.not_ties(found, target.config.dtype, tie_margin)
  relation = 'identical' if not found else 'different' if wrong else 'identical but for ties'
  as_dicts = lambda ds: [{**dataclasses.asdict(d), 'margin': _finite(d.margin)} for d in ds]
  return {'relation': relation, 'different': as_dicts(found), 'not_ties': as_dicts(wrong)}


def _texts(target, inputs, batches, timed, number) -> list[dict]:
  """The first examples of the input with both decoders' texts."""
  places = {int(i): (b, row) for b, batch in enumerate(batches)
            for row, i in enumerate(batch.indices)}
  shown = []
  for i in range(min(number, len(inputs.rows))):
    b, row = places[i]
    alone, speculative = (target.decode(t.results[b].tokens[row:row + 1])[0] for t in timed)
    shown.append({'id': inputs.examples[i].id, 'source': inputs.examples[i].text,
                  'target_alone': alone, 'speculative': speculative,
                  'reference': inputs.examples[i].reference})
  return shown


def _finite(value: float) -> float | None:
  return float(value) if np.isfinite(value) else None
