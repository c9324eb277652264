"""Trees that gin files name."""

import gin
import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.analysis import theory
from specdec_jax.cli import gin_config
from specdec_jax.tree import Tree

RUN = ['gin/runs/decode.gin', 'gin/drafters/random.gin', 'gin/inputs/file.gin', 'gin/sampling/greedy.gin']
GIVEN = ["TARGET = 'x'", "INPUTS = 'x.txt'", "OUTPUT_DIR = 'x'"]
BY_RANK = (0.7, 0.12, 0.06)


@pytest.mark.parametrize('bindings, tree', [
    (['@Tree()', 'Tree.parents = (-1, -1, 0)'], Tree((-1, -1, 0))),
    (['@full_tree()', 'full_tree.children = (3, 2)'], Tree.full((3, 2))),
    (['@spine_tree()', 'spine_tree.depth = 4', 'spine_tree.width = 3'], Tree.spine(4, 3)),
    (['@best_tree()', f'best_tree.acceptance_by_rank = {BY_RANK}', 'best_tree.max_nodes = 9',
      'best_tree.max_depth = 4'],
     theory.best_tree(BY_RANK, 9, 4)),
    (['@best_tree()', f'best_tree.acceptance_by_rank = {BY_RANK}', 'best_tree.max_nodes = 20', 'best_tree.c = 0.1',
      'best_tree.verify_costs = ((9, 1.0), (21, 4.0))'],
     theory.best_tree(BY_RANK, 20, 7, 0.1, lambda tokens: 1 if tokens <= 9 else 1 + 3 * (tokens - 9) / 12)),
])
def test_a_gin_file_names_a_tree(bindings, tree):
  gin_config.parse(RUN, [*GIVEN, f'decode.tree = {bindings[0]}', *bindings[1:]])
  found = gin.query_parameter('decode.tree').scoped_configurable_fn()
  assert found == tree and found.num_nodes > 1
