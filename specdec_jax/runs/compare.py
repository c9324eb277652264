"""The compare run: the target alone and speculative decoding, over the same examples."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import gin
import numpy as np

from specdec_jax import arguments
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.benchmarks.of_t5x import T5XMethod
from specdec_jax.data import metrics as metrics_lib
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import choosing, output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure import experiment, ranks
from specdec_jax.measure.alphas import over_texts
from specdec_jax.measure.costs import over_batches
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.reports import comparison as report
from specdec_jax.reports.words import model_name, sampling_name
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


@arguments.checked(
    **settings.OF_INPUTS, drafter=settings.drafter, gammas=arguments.tuple_of(settings.gamma_or_auto),
    trees=arguments.tuple_of(settings.tree_or_auto, empty=True),
    verifications=arguments.tuple_of(settings.VERIFICATION), samplings=arguments.tuple_of(settings.SAMPLING),
    leniences=arguments.tuple_of(settings.LENIENCE),
    metrics=arguments.tuple_of(arguments.text_of(tuple(metrics_lib.METRICS)), empty=True), t5x=arguments.flag,
    seed=settings.SEED, repeats=arguments.at_least(1), short_input_len=arguments.at_least(0),
    alpha_tokens=arguments.at_least(1), tie_margin=arguments.optional(arguments.not_negative),
    shown_examples=arguments.at_least(0))
def compare(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
            drafter: Drafter | Model = gin.REQUIRED, gammas: Sequence[int | str] = (7,),
            trees: Sequence[Tree | int | str] = (), verifications: Sequence[str] = ('token',),
            samplings: Sequence[Sampling] = (Sampling(temperature=0.0), Sampling(temperature=1.0)),
            leniences: Sequence[float] = (1.0,), metrics: Sequence[str] = (), t5x: bool = False,
            seed: int = 0, batch_size: int = 1, repeats: int = 1, max_decode_len: int = 128,
            max_input_len: int = 512, long_inputs: str = 'refuse', prefix: str = '',
            buckets: Sequence[int] = (), short_input_len: int = 32, alpha_tokens: int = 10_000,
            tie_margin: float | None = None, shown_examples: int = 3) -> dict:
  """Writes report.json and report.md into output_dir and prints the table.

  Tokens are counted by the decoders' own lengths, EOS included, in both. Every shape
  is warmed up before it is timed, and the two take turns, batch by batch.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, seed, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    drafter: what drafts.
    gammas: draft lengths to compare, each at every sampling; 'auto' is what a decode would choose, see
      `jobs.choosing`.
    trees: draft trees to compare, at lenience 1; 'auto' as in gammas.
    verifications: acceptance rules, each with every gamma: 'token', 'block'.
    samplings: temperature, top-k and top-p settings.
    leniences: each with every gamma; 1 is exact, less is not [app. A.5].
    metrics: of `data.metrics.METRICS`, of both decoders' texts against the references.
    t5x: time T5X's own decode too, the baseline of the paper's Table 2.
    repeats: timings of each batch; their median counts.
    short_input_len: inputs up to this many tokens are reported apart from longer ones.
    alpha_tokens: how much of the target's own text alpha is measured on, at most.
    tie_margin: difference of logits up to which a greedy difference is a tie;
      by the target's dtype where None.
    shown_examples: how many texts are printed.

  Returns:
    The report.

  Raises:
    RunFailed: greedy texts differ where the target's two largest logits do
      not tie; the report is written first.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  drafter = as_drafter(drafter)
  drafter.check(target)
  common: dict[str, Any] = dict(max_decode_len=max_decode_len, seed=seed)
  drafts = [dict(**choosing.asked(g, None), lenience=lenience, verification=v)
            for lenience in leniences for g in gammas for v in verifications]
  drafts += [choosing.asked(None, tree) for tree in trees]
  methods = {s: [Method(drafter=drafter, sampling=s, **draft, **common) for draft in drafts] for s in samplings}
  inputs = options.encode(target, examples)
  metrics_lib.check(metrics, inputs.examples)
  short = np.array([len(row) <= short_input_len for row in inputs.rows])
  batches_of = lambda members: options.batches(inputs, np.flatnonzero(members))
  grouped = {'short': batches_of(short), 'long': batches_of(~short)}
  batches = [b for group in grouped.values() for b in group]
  group_of_batch = [name for name, group in grouped.items() for _ in group]
  target.check_tokens(batches[0].tokens)

  experiments, shown, chosen = [], [], []
  for sampling, wanted in methods.items():
    first = choosing.first_batches(options, inputs)
    choices = [choosing.choose(target, m, first) if m.auto else None for m in wanted]
    chosen += [{'sampling': dataclasses.asdict(sampling), 'setting': m.auto, 'draft': choice.name,
                'reason': choice.reason} for m, choice in zip(wanted, choices) if choice]
    settled = [choice.settle(m) if choice else m for m, choice in zip(wanted, choices)]
    # Plain decoding is timed anyway, and a draft that is named and chosen too once.
    once = {(m.gamma_or_tree, m.lenience, m.verification): m for m in settled if m.drafter}
    to_time = [wanted[0].alone, *once.values()]
    baseline: list[Any] = [T5XMethod(target, max_decode_len, sampling, seed)] if t5x else []
    timed = time_methods(target, to_time + baseline, batches, repeats,
                         sampling_name(sampling))
    alone, of_t5x = timed[0], timed[-1] if t5x else None
    name = sampling_name(sampling)
    alpha_of = over_texts(target, drafter, batches, alone.results, sampling, alpha_tokens, leniences, name)
    of_ranks = ranks.over_texts(target, drafter, batches, alone.results, sampling, alpha_tokens, seed=seed,
                                name=name) if trees else None
    with Progress(None, f'{name}: costs', 'step') as progress:
      shapes = list(dict.fromkeys(m.gamma_or_tree for m in to_time[1:]))
      costs = over_batches(target, drafter, batches, alone, shapes, sampling, max_decode_len, progress)
    generated = [experiment.texts(target, batches, t) for t in timed[:len(to_time)]]
    for speculative, texts in zip(timed[1:], generated[1:]):
      method = speculative.method
      experiments.append({
          **experiment.figures(target, batches, group_of_batch, alone, speculative, of_t5x,
                               alpha_of[method.lenience or 0.0], costs, of_ranks),
          'outputs': experiment.outputs(target, inputs, batches, alone, speculative, tie_margin),
          'quality': _quality(metrics, inputs, generated[0], texts)})
    shown.append((sampling, _shown(inputs, generated[0], generated[1:], shown_examples)))

  result = {'target': model_name(target), 'drafter': drafter.name,
            'examples': len(inputs.rows), 'cut_inputs': inputs.cut,
            'batch_size': batch_size, 'repeats': repeats, 'short_input_len': short_input_len,
            'max_decode_len': max_decode_len, 'device': output.environment()['device'],
            'experiments': experiments, 'chosen': chosen,
            'texts': [{'sampling': dataclasses.asdict(s), 'examples': t} for s, t in shown]}
  output.write_json(output_dir, 'report.json', result)
  text = report.markdown(result)
  output.write(output_dir, 'report.md', text)
  print(text)
  wrong = [d for e in experiments for d in e['outputs'].get('not_ties', [])]
  if wrong:
    raise RunFailed(
        f"{len(wrong)} greedy texts differ from the target's own where its two largest logits do "
        f"not tie, first in example {wrong[0]['id']} at token {wrong[0]['position']} (margin "
        f"{wrong[0]['margin']}); speculative decoding is not exact here, please report it.")
  return result


def _quality(metrics, inputs, alone, speculative) -> dict:
  """Each metric of both decoders' texts."""
  references = [e.reference for e in inputs.examples]
  return {name: {'target_alone': metrics_lib.score(name, alone, references),
                 'speculative': metrics_lib.score(name, speculative, references)}
          for name in metrics}


def _shown(inputs, alone, speculative, number) -> list[dict]:
  """The first examples of the input with both decoders' texts, if there are two."""
  return [{'id': e.id, 'source': e.source, 'target_alone': a, 'speculative': s,
           'reference': e.reference}
          for texts in speculative[:1] for e, a, s in zip(inputs.examples[:number], alone, texts)]
