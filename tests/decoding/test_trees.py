"""Draft trees in the loop: the target's own texts and distribution, whatever the tree and drafter; what is counted."""

import chisquare
import every_drafter
import jax
import numpy as np
import pytest
import reference
import toy
from enumerated import DRAFTS, LENGTH, ROWS, TARGET, check
from hypothesis import given, settings, strategies as st

import specdec_jax as sd
from specdec_jax.errors import SettingError
from specdec_jax.logits_processors import MinimumLength, RepetitionPenalty

TREES = {'star': sd.Tree((-1, -1, -1)), 'full': sd.Tree.full((2, 2)), 'spine': sd.Tree.spine(3, 2),
         'uneven': sd.Tree((-1, -1, 0, 0, 1, 2, 5)), 'depth first': sd.Tree((-1, 0, 1, 0, -1, 4))}
SETTINGS = [sd.Sampling(), sd.Sampling(temperature=1.7, top_k=3, top_p=0.9), sd.Sampling(temperature=0.5, top_p=0.8),
            sd.Sampling(top_k=1)]
GREEDY = sd.Sampling(temperature=0)


def crossed(names, samplings, few):
  """Every name with every sampling; all but `few` of them in the long tests."""
  return [pytest.param(name, sampling, id=f"{name}-{str(sampling).replace('Sampling', '')}",
                       marks=() if (name, i) in few else pytest.mark.long)
          for name in names for i, sampling in enumerate(samplings)]


FEW = {('star', 0), ('full', 1), ('spine', 2), ('uneven', 3)}


@pytest.mark.parametrize('name, sampling', crossed(TREES, SETTINGS, FEW))
def test_texts_follow_the_target(name, sampling):
  p_value, _ = check(TARGET, DRAFTS['another'], gamma=None, tree=TREES[name], sampling=sampling, seed=3)
  assert p_value > chisquare.ACCEPT


@pytest.mark.parametrize('kind', [
    'itself', 'contrary', *(pytest.param(kind, marks=pytest.mark.long) for kind in ('sharper', 'uniform'))])
def test_texts_follow_the_target_whatever_the_draft(kind):
  p_value, r = check(TARGET, DRAFTS[kind], gamma=None, tree=TREES['uneven'], source=1)
  assert p_value > chisquare.ACCEPT
  if kind == 'itself':  # the first candidate is always accepted
    assert r.stats.acceptance_by_rank[0] == 1.0 and r.stats.accepted_by_rank[:, 1:].sum() == 0


OTHERS = [n for n in every_drafter.make(0) if n not in ('model', 'drafted model')]


@pytest.mark.parametrize('name, sampling', crossed(
    OTHERS, [sd.Sampling(temperature=1.5), sd.Sampling(top_k=2)],
    {('layer', 1)}))
def test_every_drafter_proposes_trees(name, sampling):
  p_value, r = check(TARGET, every_drafter.make(0)[name], gamma=None, tree=TREES['full'], sampling=sampling)
  assert p_value > chisquare.ACCEPT
  assert r.stats.accepted.sum() > 0


def test_a_rule_that_forgets_what_was_rejected_is_rejected(monkeypatch):
  """Each child tested against p itself, not against what the rejected ones have left of it."""
  from specdec_jax.rule import token
  monkeypatch.setattr(token, 'residual', lambda p, q: p)
  import loops
  r = loops.afresh(TARGET, sd.ModelDrafter(DRAFTS['another']), toy.sources(ROWS), tree=TREES['star'],
                   max_decode_len=LENGTH)
  exact = reference.text_distribution(TARGET, 0, LENGTH, sd.Sampling())
  assert chisquare.texts(r.tokens, r.lengths, exact) < chisquare.REJECT


def test_processors_see_each_node_with_its_own_text():
  def repetition(logits, tokens):
    seen = np.isin(np.arange(len(logits)), tokens)
    return np.where(seen, np.where(logits > 0, logits / 4.0, logits * 4.0), logits)

  def minimum(logits, tokens):
    return np.where((np.arange(len(logits)) == toy.EOS) & (len(tokens) - 1 < 2), -np.inf, logits)

  p_value, _ = check(TARGET, DRAFTS['another'], gamma=None, tree=TREES['uneven'],
                     processors=(RepetitionPenalty(4.0), MinimumLength(2)), reference_processors=(repetition, minimum))
  assert p_value > chisquare.ACCEPT


parents = st.integers(1, 9).flatmap(lambda n: st.tuples(*[st.integers(-1, i - 1) for i in range(n)]))
SIZE, LONG = 6, 12


def greedy_text(model, source):
  text = [0]
  while len(text) <= LONG and toy.EOS not in text[1:]:
    text.append(int(np.argmax(model.next_logits(source, text))))
  return text[1:]


@settings(max_examples=4)
@given(parents, st.integers(0, 5), st.sampled_from(['another', 'itself', 'contrary', 'lookup', 'bigram', 'random']))
def test_greedy_texts_are_the_targets_own_for_every_tree(parents, seed, kind):
  target = toy.random_toy(seed, SIZE)
  drafts = {'another': toy.random_toy(seed + 50, SIZE), 'itself': target, 'contrary': toy.scaled(target, -1.0)}
  drafter = sd.ModelDrafter(drafts[kind]) if kind in drafts else every_drafter.make(1, SIZE)[kind]
  tokens = np.array([[2, 2], [2, 3], [2, 4]], np.int32)
  tree = sd.Tree(parents)
  r = sd.speculative_decode(target, drafter, tokens, tree=tree, sampling=GREEDY, max_decode_len=LONG)
  for row, source in enumerate(tokens.sum(1) % toy.NUM_SOURCES):
    assert r.tokens[row, :r.lengths[row]].tolist() == greedy_text(target, source)
  if kind == 'itself':
    whole, left = divmod(LONG, tree.depth + 1)
    longest = r.lengths == LONG
    assert (r.stats.target_calls[longest] == whole + bool(left)).all()


def test_a_chain_is_the_tree_of_one_child_a_node():
  tokens = np.tile(toy.sources(1), (50, 1))
  options = dict(max_decode_len=LENGTH, sampling=SETTINGS[1], seed=5)
  drafter = sd.ModelDrafter(DRAFTS['another'])
  by_gamma = sd.speculative_decode(TARGET, drafter, tokens, gamma=3, **options)
  for tree in (3, sd.Tree.chain(3)):
    jax.tree.map(np.testing.assert_array_equal, by_gamma,
                 sd.speculative_decode(TARGET, drafter, tokens, tree=tree, **options))


def test_rows_do_not_know_of_each_other():
  tokens = np.array([[2, 2], [2, 3], [2, 2], [3, 3]], np.int32)
  decode = lambda rows: sd.speculative_decode(
      TARGET, sd.ModelDrafter(DRAFTS['another']), tokens[rows], tree=TREES['uneven'], ids=np.array(rows),
      max_decode_len=LENGTH, seed=2)
  whole = decode([0, 1, 2, 3])
  for rows in ([3, 1], [2, 0]):
    part = decode(rows)
    jax.tree.map(lambda a, b, rows=rows: np.testing.assert_array_equal(a, b[rows]), part, whole)


def test_budget_and_eos_inside_a_branch():
  """Never more than max_decode_len tokens, nothing after EOS; statistics count what was emitted."""
  for length in (1, 3):
    p_value, r = check(TARGET, DRAFTS['itself'], gamma=None, tree=TREES['spine'], length=length)
    assert p_value > chisquare.ACCEPT
    assert r.lengths.max() <= length and (r.stats.emitted == r.lengths).all()
    for row in range(200):
      text = r.tokens[row, :r.lengths[row]].tolist()
      assert toy.EOS not in text[:-1] and not r.tokens[row, r.lengths[row]:].any()


def test_what_is_counted():
  """Against the trace, which records every iteration."""
  tree = TREES['uneven']
  r = sd.speculative_decode(TARGET, sd.ModelDrafter(DRAFTS['another']), toy.sources(300), tree=tree,
                            max_decode_len=8, trace=True)
  stats = r.stats
  assert stats.accepted_by_position.shape == (300, tree.depth)
  assert stats.accepted_by_rank.shape == (300, tree.max_children)
  np.testing.assert_array_equal(stats.accepted_by_position.sum(1), stats.accepted)
  np.testing.assert_array_equal(stats.accepted_by_rank.sum(1), stats.accepted)
  np.testing.assert_array_equal(stats.drafted_by_position.sum(1), stats.drafted)
  for row in range(50):
    text, by_rank, offered = [], [0] * tree.max_children, [0] * tree.max_children
    for i in range(stats.target_calls[row]):
      n, path = int(r.trace.num_accepted[row, i]), r.trace.path[row, i].tolist()
      block = [int(r.trace.drafts[row, i, node]) for node in path[:n]] + [int(r.trace.next_token[row, i])]
      for depth, (node, parent) in enumerate(zip(path[:n], [-1, *path])):
        assert tree.parents[node] == parent and tree.depths[node] == depth + 1
      kept = int(r.trace.emitted[row, i])
      for depth, node in enumerate([-1, *path[:n]]):
        ended = depth >= 8 - len(text) or toy.EOS in block[:kept][:depth]
        for rank, child in enumerate(tree.children[node + 1].tolist()):
          offered[rank] += child >= 0 and not ended
      for node in path[:n][:kept]:
        by_rank[tree.ranks[node]] += 1
      text += block[:kept]
    assert text == r.tokens[row, :r.lengths[row]].tolist()
    assert by_rank == stats.accepted_by_rank[row].tolist()
    assert offered == stats.offered_by_rank[row].tolist()


def test_branches_that_are_not_finite_reach_no_other():
  """A token after which the target's logits are NaN ends a row only where it is emitted."""
  table = TARGET.params.at[..., 3, :].set(np.nan)  # after token 3 nothing is finite
  target = TARGET.replace(params=table.at[..., 3].set(-40.0))  # which is never sampled
  plain = sd.autoregressive_decode(target, toy.sources(40), max_decode_len=LENGTH, sampling=GREEDY)
  for tree in (TREES['uneven'], TREES['depth first']):
    r = sd.speculative_decode(target, sd.ModelDrafter(DRAFTS['uniform']), toy.sources(40), tree=tree, sampling=GREEDY,
                              max_decode_len=LENGTH)
    np.testing.assert_array_equal(r.tokens, plain.tokens)
    np.testing.assert_array_equal(r.status, plain.status)


@pytest.mark.parametrize('options, message', [
    ({'tree': TREES['star'], 'gamma': 2}, 'gamma is 2 and there is a tree too; give one of them'),
    ({'tree': (-1, -1)}, r'tree is \(-1, -1\); it must be a whole number from 1 to 1024, or a Tree'),
    ({'tree': TREES['star'], 'lenience': 0.5}, 'lenience is 0.5 and the draft is a tree'),
    ({'tree': TREES['star'], 'verification': 'block'}, "verification is 'block' and the draft is a tree"),
    ({'gamma': 2, 'lenience': 0.5, 'verification': 'block'}, "lenience is 0.5 and verification 'block'")])
def test_what_does_not_go_together_is_refused(options, message):
  with pytest.raises(SettingError, match=message):
    sd.speculative_decode(TARGET, sd.ModelDrafter(DRAFTS['another']), toy.sources(1), **options)


@pytest.mark.parametrize('gamma', [pytest.param(1, marks=pytest.mark.long), 3])
@pytest.mark.parametrize('kind', ['another', 'itself', pytest.param('contrary', marks=pytest.mark.long)])
def test_block_verification_follows_the_target(gamma, kind):
  p_value, r = check(TARGET, DRAFTS[kind], gamma=gamma, verification='block', source=gamma % 2)
  assert p_value > chisquare.ACCEPT
  if kind == 'itself':
    assert r.stats.acceptance_rate == 1.0
  _, by_token = check(TARGET, DRAFTS[kind], gamma=gamma, source=gamma % 2)
  assert r.stats.tokens_per_call > by_token.stats.tokens_per_call - 0.02


def test_block_verification_at_temperature_0_is_the_greedy_text():
  drafter = sd.ModelDrafter(DRAFTS['another'])
  r = sd.speculative_decode(TARGET, drafter, toy.sources(1), gamma=3, verification='block', sampling=GREEDY)
  base = sd.autoregressive_decode(TARGET, toy.sources(1), sampling=GREEDY)
  np.testing.assert_array_equal(r.tokens, base.tokens)


def test_block_verification_with_certain_proposals_follows_the_target():
  p_value, _ = check(TARGET, sd.LookupDrafter(), gamma=3, verification='block')
  assert p_value > chisquare.ACCEPT
