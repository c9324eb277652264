"""A draft that agrees as often as is wanted."""

import dataclasses

import numpy as np
import pytest
import tiny

from specdec_jax.benchmarks.synthetic import Synthetic
from specdec_jax.decoding import autoregressive_decode, speculative_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

GREEDY, LENGTH = Sampling(temperature=0.0), 40
TOKENS = np.random.default_rng(0).integers(2, 20, (16, 5), np.int32)


@pytest.fixture(scope='module')
def pair():
  target = tiny.random_t5(0)
  target = target.replace(config=dataclasses.replace(target.config, eos_id=19, eos_ids=()))
  alone = autoregressive_decode(target, TOKENS, sampling=GREEDY, max_decode_len=LENGTH)
  return target, ModelDrafter(tiny.random_t5(1)), alone


@pytest.mark.parametrize('tree, by_rank', [
    (Tree.chain(3), (0.6,)), pytest.param(Tree.chain(3), (1.0,), marks=pytest.mark.long),
    (Tree.spine(2, 2), (0.5, 0.3))])
def test_texts_are_the_targets_and_acceptance_is_what_was_chosen(pair, tree, by_rank):
  target, inner, alone = pair
  found = speculative_decode(target, Synthetic(inner, alone.tokens, by_rank), TOKENS, tree=tree, sampling=GREEDY,
                             max_decode_len=LENGTH)
  np.testing.assert_array_equal(found.tokens, alone.tokens)
  first = found.stats.accepted_by_position[:, 0].sum()
  drafted = found.stats.drafted_by_position[:, 0].sum() / len(tree.levels[0])
  whole = min(1.0, sum(by_rank[:tree.max_children]))
  assert abs(first / drafted - whole) <= 4 * (whole * (1 - whole) / drafted) ** 0.5


def test_it_knows_no_sampled_texts_and_no_alpha(pair):
  target, inner, alone = pair
  drafter = Synthetic(inner, alone.tokens, (0.5,))
  with pytest.raises(SettingError, match='temperature to 0'):
    speculative_decode(target, drafter, TOKENS, gamma=2, max_decode_len=8)
  with pytest.raises(SettingError, match='alpha is chosen'):
    drafter.distributions(None, None, None, None)
  assert drafter.draft is inner.draft and 'synthetic draft of alpha 0.5' in drafter.name
