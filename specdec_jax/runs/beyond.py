"""The beyond run: draft trees and block verification beside the paper's chain, counted, walked and timed."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import gin

from specdec_jax import arguments
from specdec_jax.analysis import reliability, theory
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.analysis.ranks import Ranks
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.jobs import choosing, output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure import experiment, ranks
from specdec_jax.measure.timing import Timed, time_methods
from specdec_jax.model import Model
from specdec_jax.reports import beyond as report, figures as figures_lib
from specdec_jax.reports.words import model_name, sampling_name
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import prediction


@arguments.checked(
    **settings.OF_INPUTS, drafter=settings.drafter, gammas=arguments.tuple_of(settings.GAMMA),
    nodes=arguments.tuple_of(arguments.at_least(1)), max_depth=arguments.at_least(1), candidates=arguments.at_least(1),
    samplings=arguments.tuple_of(settings.SAMPLING), auto=arguments.flag, seed=settings.SEED,
    repeats=arguments.at_least(1), tie_margin=arguments.optional(arguments.not_negative),
    formats=arguments.tuple_of(arguments.text_of(('png', 'svg')), empty=True))
def beyond(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
           drafter: Drafter | Model = gin.REQUIRED, gammas: Sequence[int] = (4, 7),
           nodes: Sequence[int] = (7, 15, 31, 63), max_depth: int = 7, candidates: int = 16,
           samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)),
           auto: bool = True, seed: int = 0, batch_size: int = 1, repeats: int = 1, max_decode_len: int = 128,
           max_input_len: int = 512, long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = (),
           tie_margin: float | None = None, formats: Sequence[str] = ('png', 'svg')) -> dict:
  """Writes beyond.json, beyond.md and a figure into output_dir and prints the table.

  At each sampling the target decodes the examples alone; which of the draft's candidates is accepted is measured
  over these texts, and the best trees follow from that. Then the target alone, chains by the paper's rule and by
  the block rule, and the trees take turns, batch by batch. At temperature 0 the block rule is the paper's. What is
  walked is what the measured ranks let a decoder with that draft make of the same texts, their ends included.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    drafter: what drafts.
    gammas: lengths of the chains.
    nodes, max_depth: sizes of the trees, and how deep they may be.
    candidates: of a place, at most.
    samplings: temperature, top-k and top-p settings.
    auto: whether to report what gamma and tree 'auto' would choose, too.
    repeats: timings of each batch; their median counts.
    tie_margin: see `compare`.
    formats: of the figure: 'png', 'svg'.

  Returns:
    The report.

  Raises:
    RunFailed: greedy texts differ where the target's two largest logits do not tie; the report is written first.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  drafter = as_drafter(drafter)
  drafter.check(target)
  inputs = options.encode(target, examples)
  batches = options.batches(inputs)
  measured = []
  for sampling in samplings:
    name = sampling_name(sampling)
    common: dict[str, Any] = dict(sampling=sampling, max_decode_len=max_decode_len, seed=seed)
    alone = Method(**common)
    with Progress(len(batches), f'{name}: the texts', 'batch') as progress:
      texts = []
      for batch in batches:
        texts.append(alone(target, batch))
        progress.add(1)
    of_ranks = ranks.over_texts(target, drafter, batches, texts, sampling, most=candidates, seed=seed, name=name)
    chains = [Method(drafter=drafter, gamma=g, verification=rule, **common)
              for rule in (('token',) if sampling.greedy else ('token', 'block')) for g in gammas]
    trees = [Method(drafter=drafter, tree=theory.best_tree(of_ranks.acceptance, n, max_depth), **common)
             for n in nodes]
    # The best tree of few nodes may be a chain that is there already.
    drafted = {(m.gamma_or_tree, m.verification): m for m in [*chains, *trees]}
    timed = time_methods(target, [alone, *drafted.values()], batches, repeats, name)
    rows = [{**_row(batches, timed[0], t, of_ranks),
             'outputs': experiment.outputs(target, inputs, batches, timed[0], t, tie_margin)} for t in timed[1:]]
    longest = next(row for row in rows if row['nodes'] == max(gammas))
    for row in rows:
      row['over_chain'] = row['tokens_per_call'] / longest['tokens_per_call']
    first = choosing.first_batches(options, inputs)
    chosen = {what: choosing.choose(target, Method(drafter=drafter, auto=what, **common), first)
              for what in (('gamma', 'tree') if auto else ())}
    measured.append({
        'sampling': dataclasses.asdict(sampling), 'tokens': int(of_ranks.lengths.sum()),
        'acceptance_by_rank': of_ranks.acceptance, 'drafts': rows, 'longest_chain': longest['draft'],
        'chosen': {what: {'draft': choice.name, 'reason': choice.reason} for what, choice in chosen.items()},
        'unreliable': reliability.of_repeats({'target alone': timed[0].spread} | {
            t.method.name: t.spread for t in timed[1:]})})
  result = {'target': model_name(target), 'drafter': drafter.name, 'examples': len(inputs.rows),
            'cut_inputs': inputs.cut, 'batch_size': batch_size, 'repeats': repeats, 'max_decode_len': max_decode_len,
            'max_depth': max_depth, 'device': output.environment()['device'], 'samplings': measured}
  output.write_json(output_dir, 'beyond.json', result)
  text = report.markdown(result)
  output.write(output_dir, 'beyond.md', text)
  for suffix in formats:
    figures_lib.save(figures_lib.beyond(result), f'{output_dir}/beyond.{suffix}')
  print(text)
  experiment.check_exact((row['draft'], row['outputs']) for m in measured for row in m['drafts'])
  return result


def _row(batches, alone: Timed, speculative: Timed, of_ranks: Ranks) -> dict:
  """Counts and times of one draft, JSON-ready; iteration_cost in one-token steps of the target, encoders included."""
  method = speculative.method
  shape, speeds = method.shape, experiment.speeds(batches, alone, speculative)
  walked = of_ranks.tokens_per_call(shape) if method.verification == 'token' else None
  return {'draft': shape.name, 'nodes': shape.num_nodes, 'levels': shape.depth, 'verification': method.verification,
          'parents': list(shape.parents), **speeds, 'walked_tokens_per_call': walked,
          'walk_difference': walked and speeds['tokens_per_call'] / walked - 1,
          'iteration_cost': speeds['tokens_per_call'] / speeds['speed_up'],
          'speed_up_on_v4': prediction.speed_up_on_v4(speeds['tokens_per_call'], shape)}
