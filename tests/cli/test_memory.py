"""The setting to lower where memory runs out is the one that is furthest beyond what is usual."""

import pytest

import specdec_jax.cli.configurables  # noqa: F401 (registers what gin files name)
from specdec_jax.cli import gin_config, memory

NEEDED = ["TARGET = 'x'", "DRAFT = 'x'", "INPUTS = 'x'", "OUTPUT_DIR = 'x'"]
DECODE = ['gin/runs/decode.gin', 'gin/inputs/file.gin', 'gin/drafters/model.gin', 'gin/sampling/greedy.gin']


@pytest.mark.parametrize('bindings, words', [
    (['decode.gamma = 1000'], 'decode.gamma = 1,000 is far more than usual'),
    (['decode.max_decode_len = 1000000', 'decode.batch_size = 65'], 'decode.max_decode_len = 1,000,000 is far more'),
    (['decode.max_decode_len = 1025', 'decode.batch_size = 100000'], 'decode.batch_size = 100,000 is far more'),
    (['decode.buckets = (32, 100000000)', 'decode.gamma = 32'], 'decode.buckets = 100,000,000 is far more'),
    (['decode.gamma = %MANY', 'MANY = 1000'], 'decode.gamma = 1,000 is far more'),
    (['decode.gamma = 4', 'decode.batch_size = 8'], 'lower batch_size, on which no result depends'),
    ([], 'lower batch_size, on which no result depends')])
def test_the_setting_that_is_furthest_beyond(bindings, words):
  gin_config.parse(DECODE, NEEDED + bindings)
  assert memory.mend().startswith(words)


def test_several_values_and_trees_count():
  gin_config.parse(['gin/runs/compare.gin', *DECODE[1:3], 'gin/sampling/greedy_and_temperature_1.gin'],
                   [*NEEDED, 'compare.gammas = (4, 512)'])
  assert memory.mend().startswith('compare.gammas = 512 is far more')
  gin_config.parse(DECODE, [*NEEDED, 'decode.tree = @Tree()', 'Tree.parents = (-1, -1)'])
  assert memory.mend().startswith('lower batch_size')
