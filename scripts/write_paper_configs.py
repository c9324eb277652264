"""Writes configs/table2, those of configs/table5 with a T5 draft, two of T5-small at both temperatures, a tree.

  python scripts/write_paper_configs.py

They differ in what the paper's tables print, which specdec_jax/reports/paper.py holds, and in what the planner
predicts: change that, or the text here, and write them again. A test compares the files with what this would write.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # works in a clone, too

from specdec_jax.reports import paper  # noqa: E402 (needs the path above)
from specdec_jax.tpu import acceptance, shapes  # noqa: E402
from specdec_jax.tpu.chips import get_chip  # noqa: E402
from specdec_jax.tpu.prediction import Deployment, best_tree, predict  # noqa: E402

TASKS = {'EnDe': 'ende', 'CNN/DM': 'cnn_dm'}
FINE_TUNED_ON = {'EnDe': 'WMT EnDe', 'CNN/DM': 'CNN/DM'}
PARAMETERS = {'T5-small': '77M', 'T5-base': '250M', 'T5-large': '800M'}

FILE = """\
# {table}, {task} with {draft} at temperature {temperatures}: T5-XXL (11B) with {draft} ({parameters}){rest}.
#
#   python -m specdec_jax.main --gin_file={path} \\
#       --gin.TARGET="'DIR_OF_XXL'" --gin.DRAFT="'DIR_OF_{directory}'" --output_dir=DIR
#
# Hardware: one TPU-v4 chip (32 GiB), batch 1, bfloat16.
# Checkpoints: t5_1_1 xxl and {size}, both fine-tuned on {data}, imported as in docs/reproducing.md.
{paper}

include 'gin/paper/{file}.gin'
include 'gin/drafters/model.gin'
{settings}
"""
ONE_TEMPERATURE = """
SAMPLINGS = (@Sampling(),)
Sampling.temperature = {:.1f}
compare.gammas = ({},)"""
BOTH_TEMPERATURES = """\
include 'gin/sampling/greedy_and_temperature_1.gin'

compare.gammas = ({},)"""


def text(task: str, draft: str, **fields: str) -> str:
  size = draft.removeprefix('T5-')
  return FILE.format(task=task, draft=draft, parameters=PARAMETERS[draft], size=size, directory=size.upper(),
                     data=FINE_TUNED_ON[task], file=TASKS[task], **fields)


def printed(row: paper.Experiment) -> str:
  return (f'alpha {row.alpha:.2f}, speed-up {row.speed_up}X over T5X; '
          f'thm 3.8 with c = {paper.C[row.draft]}: {row.predicted}X')


def table_2() -> dict[str, str]:
  """An experiment a file, by path."""
  files = {}
  for row in paper.TABLE_2:
    path = f"configs/table2/{TASKS[row.task]}_{row.draft.removeprefix('T5-')}_t{row.temperature:g}.gin"
    files[path] = text(row.task, row.draft, path=path, table='Table 2', temperatures=f'{row.temperature:g}',
                       rest=f', gamma {row.gamma}', paper=f'# The paper: {printed(row)}.',
                       settings=ONE_TEMPERATURE.format(row.temperature, row.gamma))
  return files


def t5_small() -> dict[str, str]:
  """T5-small, which has one gamma at both temperatures, in one run a task."""
  files = {}
  for task, name in TASKS.items():
    path = f'configs/{name}_t5_xxl_small.gin'
    rows = [row for row in paper.TABLE_2 if (row.task, row.draft) == (task, 'T5-small')]
    gamma, = {row.gamma for row in rows}
    figures = '\n'.join(['# The paper:', *(f'#   temperature {row.temperature:g}: {printed(row)}' for row in rows)])
    files[path] = text(task, 'T5-small', path=path, table='Table 2', temperatures='0 and 1', rest=f', gamma {gamma}',
                       paper=figures, settings=BOTH_TEMPERATURES.format(gamma))
  return files


def table_5() -> dict[str, str]:
  """Lenience with a T5 draft on EnDe; without a gamma of its own, with Table 2's."""
  files = {}
  pairs = dict.fromkeys((row.draft, row.temperature) for row in paper.TABLE_5 if row.draft in paper.C)
  for draft, temperature in pairs:
    path = f"configs/table5/ende_{draft.removeprefix('T5-')}_t{temperature:g}.gin"
    rows = [row for row in paper.TABLE_5 if (row.draft, row.temperature) == (draft, temperature)]
    gamma = rows[0].gamma or next(
        row.gamma for row in paper.TABLE_2 if (row.task, row.draft, row.temperature) == ('EnDe', draft, temperature))
    figures = ['# The paper (outputs are inexact below lenience 1):',
               f"#   alpha {', '.join(f'{row.alpha:.2f}' for row in rows)} at lenience "
               f"{', '.join(f'{row.lenience:g}' for row in rows)}"]
    if rows[0].speed_up:
      under = f'c = {rows[0].c}' if rows[0].c else f'gamma {rows[0].gamma}'
      figures.append(f"#   speed-up {', '.join(f'{row.speed_up}X' for row in rows)}, with {under}")
    if not temperature:
      figures.append('# At temperature 0 the condition is p(x) >= l max(p), p before the argmax.')
    leniences = f'\ncompare.leniences = {tuple(row.lenience for row in rows)}'
    files[path] = text('EnDe', draft, path=path, table='Table 5', temperatures=f'{temperature:g}',
                       rest=' over lenience', paper='\n'.join(figures),
                       settings=ONE_TEMPERATURE.format(temperature, gamma) + leniences)
  return files


PLANNED = """\
# Planned, not measured (docs/trees_on_tpu.md), for inputs and texts of 128 tokens:
#   by the compiler for one v4: {memory}
#   by the model of time, with the further candidates' acceptance assumed for alpha {alpha:.2f}:
#   gamma {gamma}: {chain.tokens_per_call:.2f} tokens a target call, {chain.speed_up:.2f}X
#   {nodes} nodes in {levels} levels: {tree.tokens_per_call:.2f} tokens a target call, {tree.speed_up:.2f}X"""
# Of the decode program with this tree; tests/tpu/test_tree_plans.py compiles it (--long).
MEMORY = '22.78 GB at the peak; an iteration reads each weight once (11.14 GB) and copies no cache.'
TREE = """
compare.trees = (@best_tree(),)
best_tree.acceptance_by_rank = (
    {ranks})
best_tree.max_nodes = {nodes}
best_tree.max_depth = {levels}
best_tree.c = {c:.4f}"""


def tree(nodes: int = 63) -> dict[str, str]:
  """Table 2's first row with a tree beside the chain."""
  row = paper.TABLE_2[0]
  path = 'configs/beyond/ende_t5_xxl_small_tree.gin'
  ranks = tuple(round(rank, 4) for rank in acceptance.acceptance_by_rank(row.alpha))
  at = Deployment(target=shapes.abstract_model('t5_1_1_xxl'), drafter=shapes.abstract_drafter('t5_1_1_small'),
                  chip=get_chip('v4'), topology='1x1x1', batch=1, input_length=128, max_decode_len=128)
  chain, found = predict(at, row.gamma, ranks), best_tree(at, nodes, ranks, free=True)
  planned = PLANNED.format(memory=MEMORY, alpha=row.alpha, gamma=row.gamma, chain=chain, tree=predict(at, found, ranks),
                           nodes=nodes, levels=found.depth)
  lines = ', '.join(map(str, ranks[:8])), ', '.join(map(str, ranks[8:]))
  settings = ONE_TEMPERATURE.format(row.temperature, row.gamma) + TREE.format(
      ranks=',\n    '.join(lines), nodes=nodes, levels=found.depth, c=chain.c)
  return {path: text(row.task, row.draft, path=path, table='Table 2 with a tree',
                     temperatures=f'{row.temperature:g}', rest=f', gamma {row.gamma} and {nodes} nodes',
                     paper=f'# The paper, gamma {row.gamma}: {printed(row)}.\n{planned}', settings=settings)}


def main():
  argparse.ArgumentParser(description=__doc__.split('\n')[0]).parse_args()  # no arguments but --help
  for path, content in {**table_2(), **t5_small(), **table_5(), **tree()}.items():
    (ROOT / path).parent.mkdir(exist_ok=True)
    (ROOT / path).write_text(content, encoding='utf-8')


if __name__ == '__main__':
  main()
