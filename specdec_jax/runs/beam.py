"""The beam run: plain and speculative beam search over the same examples."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import gin

from specdec_jax import arguments
from specdec_jax.analysis import reliability
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.data.examples import Example
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.measure import beams
from specdec_jax.measure.agreement import TIE_MARGINS
from specdec_jax.measure.timing import time_methods
from specdec_jax.model import Model
from specdec_jax.reports import beam_search as beam_report
from specdec_jax.reports.words import model_name


@arguments.checked(
    **settings.OF_INPUTS, drafter=settings.drafter, num_beams=arguments.at_least(1), alpha=arguments.not_negative,
    draft_beams=arguments.tuple_of(arguments.at_least(1)), gammas=arguments.tuple_of(settings.GAMMA),
    num_return=arguments.optional(arguments.at_least(1)), repeats=arguments.at_least(1),
    tie_margin=arguments.optional(arguments.not_negative), shown_examples=arguments.at_least(0))
def beam(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
         drafter: ModelDrafter | Model = gin.REQUIRED, num_beams: int = 4, alpha: float = 0.6,
         draft_beams: Sequence[int] = (4, 8), gammas: Sequence[int] = (4,), batch_size: int = 1,
         repeats: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
         long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = (),
         tie_margin: float | None = None, shown_examples: int = 3, num_return: int | None = None) -> dict:
  """Writes report.json and report.md into output_dir and prints the table.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`.
    drafter: a `ModelDrafter`, or its model.
    num_beams, alpha: width of the search and its length penalty.
    draft_beams, gammas: drafted hypotheses and steps, each with each.
    repeats: timings of each batch; their median counts.
    tie_margin: difference of scores up to which another set of beams is a tie; by the
      target's dtype where None.
    shown_examples: how many texts are printed.
    num_return: how many beams of each input are compared, the best; the printed examples show them all. By default
      all beams are compared and the best is printed.

  Returns:
    The report.

  Raises:
    RunFailed: the two searches differ by more than a tie; the report is written first.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  drafter = as_drafter(drafter)
  plain = beams.BeamMethod(num_beams=num_beams, alpha=alpha, max_decode_len=max_decode_len,
                           num_return=num_return)
  methods: list[Any] = [plain] + [dataclasses.replace(plain, drafter=drafter, draft_beams=u, gamma=g)
                                  for u, g in itertools.product(draft_beams, gammas)]
  inputs = options.encode(target, examples)
  batches = options.batches(inputs)
  alone, *drafted = time_methods(target, methods, batches, repeats, 'beam search')

  margin = TIE_MARGINS[target.config.dtype] if tie_margin is None else tie_margin
  result = {'target': model_name(target), 'drafter': drafter.name,
            'examples': len(inputs.rows), 'cut_inputs': inputs.cut, 'num_beams': num_beams,
            'alpha': alpha, 'batch_size': batch_size, 'repeats': repeats,
            'max_decode_len': max_decode_len, 'tie_margin': margin,
            'device': output.environment()['device'], 'plain': beams.figures_of(alone, batches),
            'speculative': [beams.compared(alone, s, batches, margin) for s in drafted],
            'unreliable': reliability.of_repeats({'plain': alone.spread} | {
                beam_report.name(u, g): s.spread
                for s in drafted for u, g in [(s.method.draft_beams, s.method.gamma)]}),
            'texts': beams.texts(target, inputs, batches, alone, drafted[0], shown_examples)}
  output.write_json(output_dir, 'report.json', result)
  text = beam_report.markdown(result)
  output.write(output_dir, 'report.md', text)
  print(text)
  wrong = sum(s['different'] for s in result['speculative'])
  if wrong:
    raise RunFailed(
        f'{wrong} speculative searches returned beams whose scores differ from the plain search\'s by '
        f'more than {margin} (the most is {max(s["score_difference"] for s in result["speculative"])});'
        ' set beam.tie_margin if the target rounds more coarsely than that, else please report it.')
  return result
