"""Decoder-only texts follow the target's distribution behind prompts of several lengths, enumerated."""

import chisquare
import prompted_toy
import pytest
import toy

import specdec_jax as sd

TARGET = prompted_toy.prompted(toy.random_toy(0))
DRAFTS = {name: prompted_toy.prompted(table) for name, table in (
    ('another', toy.random_toy(1)), ('contrary', toy.scaled(toy.random_toy(0), -3.0)))}


@pytest.mark.parametrize('gamma, kind, sampling', [
    (1, 'another', sd.Sampling()),
    (3, 'contrary', sd.Sampling(temperature=0.7, top_k=3)),
    (6, 'another', sd.Sampling()),
])
def test_texts_follow_the_target_behind_each_prompt(gamma, kind, sampling):
  p_values, _ = prompted_toy.check(TARGET, DRAFTS[kind], gamma=gamma, sampling=sampling, seed=gamma)
  assert min(p_values) > chisquare.ACCEPT


def test_the_target_accepts_all_that_it_drafts_itself():
  p_values, r = prompted_toy.check(TARGET, TARGET, gamma=6)
  assert min(p_values) > chisquare.ACCEPT
  assert r.stats.acceptance_rate == 1.0


def test_another_target_is_told_apart():
  """The distribution behind a prompt is that of its own last tokens, not of the padding or of other rows."""
  p_values, _ = prompted_toy.check(DRAFTS['another'], TARGET, gamma=6, distribution_of=TARGET)
  assert max(p_values) < chisquare.REJECT
  p_values, _ = prompted_toy.check(TARGET, DRAFTS['another'], gamma=6, behind=1)
  assert p_values[0] < chisquare.REJECT and p_values[1] > chisquare.ACCEPT and p_values[2] < chisquare.REJECT
