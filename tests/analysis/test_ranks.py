"""Which candidate is accepted: against the rule's own counts in a decode, and the walk along texts by hand."""

import numpy as np
import pytest
import toy

import specdec_jax as sd
from specdec_jax.analysis.ranks import Ranks, ranks

SIZE, LENGTH = 6, 12
TARGET, DRAFT = toy.random_toy(0, SIZE, eos=-1.0), toy.random_toy(1, SIZE, eos=-1.0)
TOKENS = np.array([[2, 2], [2, 3]] * 400, np.int32)
STAR = sd.Tree((-1, -1, -1, -1))


@pytest.mark.parametrize('sampling', [
    pytest.param(sd.Sampling(), marks=pytest.mark.long), sd.Sampling(temperature=0.6, top_p=0.9)], ids=str)
def test_a_decode_accepts_each_rank_as_often(sampling):
  found = ranks(TARGET, DRAFT, TOKENS, sampling, most=4, max_decode_len=LENGTH, batch_size=len(TOKENS))
  r = sd.speculative_decode(TARGET, DRAFT, TOKENS, tree=STAR, sampling=sampling, max_decode_len=LENGTH, seed=9)
  counted = r.stats.accepted_by_rank.sum(0) / r.stats.offered_by_rank.sum(0)
  # A decode meets places at random; its blocks end at the same tokens, so the rates agree up to chance.
  np.testing.assert_allclose(found.acceptance, counted, atol=0.03)
  assert 0.3 < sum(found.acceptance) <= 1


@pytest.mark.parametrize('tree', [sd.Tree.chain(3), STAR, sd.Tree.full((2, 2)), sd.Tree.spine(4, 3)], ids=str)
def test_the_walk_is_the_decoders_own_at_temperature_0(tree):
  """Exactly: the text is the same, and so is every candidate's rank."""
  greedy, tokens = sd.Sampling(temperature=0), np.array([[2, 2], [2, 3]])
  for seed in range(4):
    target, draft = toy.random_toy(seed, SIZE, eos=-2.0), toy.random_toy(seed + 20, SIZE)
    found = ranks(target, draft, tokens, greedy, most=5, max_decode_len=LENGTH, batch_size=2)
    r = sd.speculative_decode(target, draft, tokens, tree=tree, sampling=greedy, max_decode_len=LENGTH)
    assert found.tokens_per_call(tree) == pytest.approx(r.stats.tokens_per_call)


def test_a_walk_by_hand():
  found = Ranks(by_place=np.array([[0, 1, 0, 2, 0, 0], [1, 0, 0, 0, 0, 0]]), lengths=np.array([6, 2]), most=2)
  assert found.acceptance == (5 / 8, 2 / 8)
  # gamma 2: [0 1], [0 2], [0 0] and [1], [0]: five calls.
  assert found.tokens_per_call(sd.Tree.chain(2)) == 8 / 5
  # Two candidates, then one: [0 1], [0 2], [0 0] and [1 0]: four calls.
  assert found.tokens_per_call(sd.Tree((-1, -1, 0, 1))) == 8 / 4


def test_a_draft_that_is_the_target_has_rank_0_everywhere():
  found = ranks(TARGET, TARGET, TOKENS[:10], sd.Sampling(temperature=0), most=3, max_decode_len=LENGTH)
  assert found.acceptance == (1.0, 0.0, 0.0) and len(found.lengths) == 10
