"""The plan_trees run: draft trees of several sizes for several drafts, chips and batches, in one table."""

import os
from collections.abc import Sequence
from typing import Any

from specdec_jax import arguments, checks
from specdec_jax.errors import SettingError
from specdec_jax.jobs import output, settings
from specdec_jax.notes import note
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import tree_tables
from specdec_jax.tpu.acceptance import acceptance_by_rank
from specdec_jax.tpu.chips import CHIPS
from specdec_jax.tpu.planner import plan as compile_plan
from specdec_jax.tpu.tables import ASSUMPTIONS
from specdec_jax.tpu.traffic import Assumptions


def _tuple_of(*checks_of_items: arguments.Check) -> arguments.Check:
  """A tuple of so many items, each with a check of its own."""
  def check(name: str, value: Any) -> tuple:
    items = checks.sequence(name, value, lambda name, item: item)
    if len(items) != len(checks_of_items):
      raise SettingError(f'{name} is {checks.shown(value)}; it must have {len(checks_of_items)} items.')
    return tuple(one(f'{name}[{i}]', item) for i, (one, item) in enumerate(zip(checks_of_items, items)))
  return check


_CHIP = arguments.text_of(tuple(CHIPS))
_SIZE = arguments.at_least(1)


@arguments.checked(
    target=arguments.text, pairs=arguments.tuple_of(_tuple_of(arguments.text, arguments.probability)),
    places=arguments.tuple_of(_tuple_of(_CHIP, arguments.text)), batches=arguments.tuple_of(_SIZE),
    nodes=arguments.tuple_of(_SIZE), sampling=settings.SAMPLING, input_length=_SIZE, max_decode_len=_SIZE,
    layer_seconds=arguments.not_negative,
    compiled=arguments.tuple_of(_tuple_of(arguments.text, _CHIP, arguments.text, _SIZE, _SIZE), empty=True))
def plan_trees(output_dir: str, target: str = 't5_1_1_xxl',
               pairs: Sequence[tuple[str, float]] = (('t5_1_1_small', 0.75),),
               places: Sequence[tuple[str, str]] = (('v4', '1x1x1'),), batches: Sequence[int] = (1, 4, 16, 64),
               nodes: Sequence[int] = (7, 15, 31, 63, 127, 255), sampling: Sampling = Sampling(temperature=0.0),
               input_length: int = 128, max_decode_len: int = 128, layer_seconds: float = 15e-6,
               compiled: Sequence[tuple[str, str, str, int, int]] = ()) -> dict:
  """Writes trees.json, trees.md and trees.png into output_dir and prints trees.md.

  Every cell is computed from sizes; those of `compiled` are whole programs of the TPU compiler beside.

  Args:
    output_dir: claimed by `launch.main`.
    target: as in `tpu.plan`.
    pairs: (draft, alpha); acceptance by rank is `tpu.acceptance`'s for that alpha.
    places: (chip, topology).
    batches, nodes: each with each.
    sampling, input_length, max_decode_len: as in `tpu.plan`.
    layer_seconds: see `traffic.Assumptions`.
    compiled: (draft, chip, topology, batch, nodes) of the programs to compile, a minute or two each; a draft is one
      of `pairs`.

  Returns:
    What trees.json holds.
  """
  alphas = dict(pairs)
  if unknown := {draft for draft, *_ in compiled} - set(alphas):
    raise SettingError(f"plan_trees.compiled has the draft '{min(unknown)}', which plan_trees.pairs has not: add it "
                       'there with its alpha.')
  shape: dict[str, Any] = dict(input_length=input_length, max_decode_len=max_decode_len,
                               assumptions=Assumptions(layer_seconds=layer_seconds))
  cells = tree_tables.predictions(target, pairs, places, batches, nodes, sampling, **shape)
  programs = []
  for i, (draft, chip, topology, batch, size) in enumerate(compiled):
    note(f'program {i + 1} of {len(compiled)}: {draft}, {chip} {topology}, batch {batch}, {size} nodes')
    programs.append(tree_tables.compiled(compile_plan(
        target, draft, chip, topology, batch=batch, nodes=size, alpha=alphas[draft], sampling=sampling, passes=False,
        **shape), draft))
    output.write_json(output_dir, 'compiled.json', programs)  # a stopped run keeps what it has
  assumed = {draft: acceptance_by_rank(alpha, sampling) for draft, alpha in pairs}
  result = {'cells': cells, 'compiled': programs, 'assumed': assumed}
  ranks = '\n'.join(f"- {draft}: {', '.join(f'{a:.3f}' for a in found)}" for draft, found in assumed.items())
  whole = ('Whole programs, by the compiler; GB of one device:\n', tree_tables.compiled_markdown(programs))
  text = '\n'.join([
      'Predicted speed-up, by sizes and the model of time (* the whole program was compiled, too):\n',
      tree_tables.speed_up_markdown(cells, programs),
      "Milliseconds of the target's passes, likewise:\n", tree_tables.passes_markdown(cells),
      'Weights and caches of one device by their sizes, GB:\n', tree_tables.held_markdown(cells),
      *(whole if programs else ()),
      f'Assumed: acceptance by rank\n\n{ranks}\n', ASSUMPTIONS.format(1e6 * layer_seconds), ''])
  tree_tables.plot(cells, os.path.join(output_dir, 'trees.png'))
  output.write_json(output_dir, 'trees.json', result)
  output.write(output_dir, 'trees.md', text)
  print(text)
  return result
