"""The plan run: one plan, Table 2's rows where they apply, and a table over gammas, batches and chips."""

import os
from collections.abc import Sequence
from typing import Any

from specdec_jax import arguments, checks
from specdec_jax.jobs import output, settings
from specdec_jax.notes import note
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import tables
from specdec_jax.tpu.chips import CHIPS, get_chip
from specdec_jax.tpu.planner import plan as compile_plan
from specdec_jax.tpu.traffic import Assumptions
from specdec_jax.tree import Tree

_DTYPES = ('bfloat16', 'float32', 'int8')


def _model(name: str, value: Any) -> Any:
  """A name or a path, or what `tpu.plan` takes beside."""
  numbers = isinstance(value, (bool, int, float, list, tuple, dict)) or value is None
  return checks.text(name, value, empty=False) if numbers or isinstance(value, str) else value


@arguments.checked(
    target=_model, draft=arguments.optional(_model), chip=arguments.text_of(tuple(CHIPS)),
    topology=arguments.optional(arguments.text), gamma=arguments.optional(settings.GAMMA),
    tree=arguments.optional(settings.tree), nodes=arguments.optional(arguments.at_least(1)),
    acceptance_by_rank=arguments.optional(arguments.tuple_of(arguments.probability)), batch=arguments.at_least(1),
    input_length=arguments.at_least(1), max_decode_len=arguments.at_least(1), sampling=settings.SAMPLING,
    alpha=arguments.optional(arguments.probability), dtype=arguments.text_of(_DTYPES),
    draft_dtype=arguments.optional(arguments.text_of(_DTYPES)),
    layer_seconds=arguments.not_negative, collective_seconds=arguments.not_negative, data=arguments.at_least(1),
    split_draft=arguments.flag, passes=arguments.flag, grid_gammas=arguments.tuple_of(settings.GAMMA),
    grid_batches=arguments.tuple_of(arguments.at_least(1)),
    grid_chips=arguments.tuple_of(arguments.text_of(tuple(CHIPS))))
def plan(output_dir: str, target: Any = 't5_1_1_xxl', draft: Any = 't5_1_1_small', chip: str = 'v4',
         topology: str | None = None, gamma: int | None = None, batch: int = 1, input_length: int = 128,
         max_decode_len: int = 128, sampling: Sampling = Sampling(temperature=0.0),
         alpha: float | None = None, dtype: str = 'bfloat16', layer_seconds: float = 15e-6,
         collective_seconds: float = 10e-6, data: int = 1, split_draft: bool = False, passes: bool = True,
         grid_gammas: Sequence[int] = (3, 5, 7), grid_batches: Sequence[int] = (1, 4, 16, 64, 256),
         grid_chips: Sequence[str] = tuple(CHIPS), tree: Tree | int | None = None, nodes: int | None = None,
         acceptance_by_rank: Sequence[float] | None = None, draft_dtype: str | None = None) -> dict:
  """Writes plan.json, plan.md, plan.png and program.txt into output_dir and prints plan.md.

  Args:
    output_dir: claimed by `launch.main`.
    target, draft, chip, gamma, tree, nodes, batch, input_length, max_decode_len, sampling, alpha,
      acceptance_by_rank, dtype, draft_dtype, data, split_draft, passes: as in `tpu.plan`.
    topology: as there; the smallest slice of the chip by default.
    layer_seconds, collective_seconds: see `traffic.Assumptions`.
    grid_gammas, grid_batches, grid_chips: of the table of predictions, which needs an alpha.

  Returns:
    What plan.json holds.
  """
  topology = topology or get_chip(chip).slices[0]
  assumptions = Assumptions(layer_seconds=layer_seconds, collective_seconds=collective_seconds)
  shape: dict[str, Any] = dict(input_length=input_length, max_decode_len=max_decode_len, assumptions=assumptions)
  grid = None
  if alpha is not None and draft is not None:
    grid = tables.grid(target, draft, alpha, grid_gammas, grid_batches, grid_chips, dtype=dtype,
                       draft_dtype=draft_dtype, **shape)
  found = compile_plan(
      target, draft, chip, topology, gamma, batch, sampling=sampling, alpha=alpha, dtype=dtype,
      data=data, split_draft=split_draft, passes=passes, tell=note, tree=tree, nodes=nodes,
      acceptance_by_rank=acceptance_by_rank, draft_dtype=draft_dtype, **shape)
  result: dict[str, Any] = {'plan': tables.to_json(found)}
  text = tables.markdown(found)
  if rows := tables.papers_rows(found):
    result['table_2'] = rows
    text += '\n' + tables.paper_markdown(rows)
  if grid is not None:
    result['grid'] = grid
    text += f'\nPredicted speed-up at alpha {alpha}, on the smallest slice of each chip that holds the pair:\n\n'
    text += tables.grid_markdown(grid)
    tables.plot(grid, os.path.join(output_dir, 'plan.png'))
  output.write_json(output_dir, 'plan.json', result)
  output.write(output_dir, 'plan.md', text)
  output.write(output_dir, 'program.txt', found.program)
  print(text)
  return result
