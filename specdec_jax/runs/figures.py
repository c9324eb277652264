"""The figures run: the paper's figures 1 to 5 for a pair of models, as pictures and as a page."""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence

import gin

from specdec_jax import arguments
from specdec_jax.analysis import cost as cost_lib
from specdec_jax.analysis.alpha import as_drafter
from specdec_jax.data.examples import Example
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.jobs import output, settings
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.jobs.progress import Progress
from specdec_jax.measure.timing import total
from specdec_jax.model import Model
from specdec_jax.notes import note
from specdec_jax.reports import (
  figures as figures_lib,
  measured as measured_lib,
  paper_tables,
  tables,
  trace as trace_lib,
)
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


@arguments.checked(
    **settings.OF_INPUTS, drafter=settings.drafter, gammas=arguments.tuple_of(settings.GAMMA),
    tree=arguments.optional(settings.tree),
    sampling=settings.SAMPLING, reports=arguments.tuple_of(arguments.path, empty=True), example=arguments.at_least(0),
    shown_examples=arguments.at_least(0), seed=settings.SEED,
    formats=arguments.tuple_of(arguments.text_of(('png', 'svg'))))
def figures(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable[Example] = gin.REQUIRED,
            drafter: Drafter | Model = gin.REQUIRED, gammas: Sequence[int] = (7, 3),
            tree: Tree | int | None = None, sampling: Sampling = Sampling(temperature=0.0), reports: Sequence[str] = (),
            example: int = 0, shown_examples: int = 3, seed: int = 0, batch_size: int = 8,
            max_decode_len: int = 128, max_input_len: int = 512, long_inputs: str = 'refuse',
            prefix: str = '', buckets: Sequence[int] = (), formats: Sequence[str] = ('png', 'svg')) -> dict:
  """Writes figure_1 to figure_5, acceptance_by_position and trace.html into output_dir.

  Prints the traces, in colours where stdout is a terminal, and measured against
  predicted speed-up where there are reports. All but the times in figure 5 depends
  on the settings alone.

  Args:
    output_dir: claimed by `launch.main`.
    target, drafter, examples, seed, max_decode_len: as in `decode`.
    batch_size, max_input_len, long_inputs, prefix, buckets: see `jobs.inputs.InputOptions`; one bucket,
      of the longest input, by default.
    gammas: draft lengths of figure 5; figure 1 has the first.
    tree: a draft tree, which figures 1 and 5 and trace.html then show in place of the first gamma.
    sampling: of the decodes that are shown.
    reports: report.json files of compare runs; their figures are put on the curves.
    example: which input, from 0, figures 1 and 5 show.
    shown_examples: how many inputs from there on are in trace.html and printed.
    formats: of the pictures: 'png', 'svg'.

  Returns:
    {name of a figure: paths of its files}.
  """
  options = InputOptions(batch_size=batch_size, max_input_len=max_input_len, long_inputs=long_inputs,
                         prefix=prefix, buckets=buckets)
  drafter = as_drafter(drafter)
  drafter.check(target)
  found = measured_lib.read(reports)
  measured = [m for m in found if m.reliable is not False]
  if len(measured) < len(found):
    note(f'{len(found) - len(measured)} experiments of the reports are left out: their timings are unreliable.')
  inputs = options.encode(target, examples)
  if not 0 <= example < len(inputs.rows):
    raise SettingError(f'figures.example is {example}, but there are {len(inputs.rows)} inputs '
                     f'(0 to {len(inputs.rows) - 1}).')
  batches = dataclasses.replace(
      options, batch_size=min(batch_size, len(inputs.rows)),
      buckets=buckets or (max(map(len, inputs.rows)),)).batches(inputs)
  place = {int(i): (b, row) for b, batch in enumerate(batches)
           for row, i in enumerate(batch.indices)}
  drafted = dict.fromkeys([*([] if tree is None else [tree]), *gammas])
  methods = [Method(drafter=drafter, tree=shape, sampling=sampling, seed=seed, max_decode_len=max_decode_len,
                    trace=True) for shape in drafted]
  decodes = {m.gamma_or_tree: _decoded(target, batches, m) for m in methods}
  shape = next(iter(decodes))

  shown = range(example, min(example + max(shown_examples, 1), len(inputs.rows)))
  pictures = [trace_lib.picture(target, decodes[shape][place[i][0]], place[i][1], str(inputs.examples[i].source),
                                methods[0].shape) for i in shown]
  print('\n'.join(p.text() for p in pictures))
  page = '\n'.join(p.html() for p in pictures)
  output.write(output_dir, 'trace.html', f'<!doctype html><meta charset="utf-8">\n{page}\n')
  if measured:
    print(tables.markdown(*paper_tables.filled(*paper_tables.table_4(measured))))

  b, row = place[example]
  with Progress(None, 'costs', 'step') as progress:
    costs = cost_lib.measure(target, drafter, batches[b].tokens[row:row + 1], tuple(decodes), sampling,
                             max_decode_len=max_decode_len, tell=progress.next)
  timed = [(costs[g], int(results[b].stats.target_calls[row])) for g, results in decodes.items()]
  drawn = {
      'figure_1': pictures[0].figure(),
      'figure_2': figures_lib.expected_tokens(measured=measured),
      'figure_3': figures_lib.optimal_gamma(measured=measured),
      'figure_4': figures_lib.speed_up_and_operations(measured=measured),
      'figure_5': figures_lib.timeline(timed, int(decodes[shape][b].lengths[row])),
      'acceptance_by_position': figures_lib.acceptance_by_position(
          _acceptance(decodes[max(gammas)], batches, drafter, sampling, measured)),
  }
  written = {}
  for name, fig in drawn.items():
    written[name] = [os.path.join(output_dir, f'{name}.{f}') for f in formats]
    for path in written[name]:
      figures_lib.save(fig, path)
  print(f'{len(drawn)} figures and trace.html in {output_dir}')
  return written


def _decoded(target, batches, method: Method) -> list:
  """A result for each batch."""
  found, shapes = [], set()
  with Progress(sum(len(b.indices) for b in batches), method.name) as progress:
    for batch in batches:
      with contextlib.nullcontext() if batch.tokens.shape in shapes else progress.compiling():
        found.append(method(target, batch))
      shapes.add(batch.tokens.shape)
      progress.add(len(batch.indices))
  return found


def _acceptance(longest, batches, drafter, sampling, measured):
  """(label, rates, alpha) of each draft and temperature, here and in the reports, with its longest gamma's results.

  What is drafted at a place does not depend on gamma: shorter ones would only draw the same line again.
  """
  found = {}
  rates = measured_lib.acceptance_rates(*(
      total(name, batches, longest) for name in ('accepted_by_position', 'drafted_by_position')))
  found[drafter.name, sampling.temperature] = rates, None
  for m in sorted(measured, key=lambda m: m.gamma):
    if m.acceptance:
      found[m.name, m.temperature] = m.acceptance, m.alpha
  several = len({name for name, _ in found}) > 1
  return [(f'temperature {temperature:g}' + (f', {name}' if several else ''), rates, alpha)
          for (name, temperature), (rates, alpha) in found.items()]
