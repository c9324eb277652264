"""Rows that are filled again as they end: each result is that of a batch, whatever stood in its place before."""

import every_drafter
import families
import jax
import numpy as np
import pytest
import tiny
import toy
from refilled import drain

import specdec_jax as sd
from specdec_jax.decoding import running, running_decode
from specdec_jax.errors import SettingError
from specdec_jax.results import Status

TOY = toy.random_toy(0, eos=-1.0)
DRAFTERS = every_drafter.make(3)
COUNT = 11
IDS = np.arange(COUNT) + 5
TREE = sd.Tree((-1, -1, 0, 0, 2))


def toy_inputs():
  """Tokens [11, 6] of two sources and of every length from 1 to 6."""
  rng = np.random.default_rng(0)
  tokens = rng.integers(2, 4, size=(COUNT, 6)).astype(np.int32)
  return np.where(np.arange(6) <= np.arange(COUNT)[:, None] % 6, tokens, 0)


def assert_same(ours, theirs, scores=0.0):
  """Every field of two results, scores to a tolerance: programs of different shapes differ in their last bits."""
  np.testing.assert_allclose(ours.scores, theirs.scores, rtol=0, atol=scores)
  for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(ours.replace(scores=None, trace=None)),
                          jax.tree.leaves(theirs.replace(scores=None, trace=None))):
    np.testing.assert_array_equal(a, b, err_msg=jax.tree_util.keystr(path))


def both(target, drafter, tokens, lengths=None, rows=3, max_decode_len=8, ids=IDS, order=None, together=None,
         **options):
  """The results of a running loop and of one batch."""
  loop = running_decode(target, drafter, rows=rows, length=tokens.shape[1], max_decode_len=max_decode_len, **options)
  ours = drain(loop, tokens, ids, lengths, order, together)
  common = dict(max_decode_len=max_decode_len, ids=ids, lengths=lengths, buckets=(),
                **{k: v for k, v in options.items() if k != 'hand_back'})
  if drafter is None:
    return ours, sd.autoregressive_decode(target, tokens, **common)
  return ours, sd.speculative_decode(target, drafter, tokens, **common)


@pytest.mark.parametrize('name', DRAFTERS)
def test_every_drafter(name):
  ours, theirs = both(TOY, every_drafter.switched(DRAFTERS, name), toy_inputs(), gamma=2)
  assert_same(ours, theirs, 1e-5)
  assert {Status.EOS, Status.LENGTH} == set(ours.status.tolist()) and len({t.tobytes() for t in ours.tokens}) > 5


METHODS = {'plain': (None, {}),
           'block': (sd.NGramDrafter.fit([[2, 3, 1]], num_tokens=4), {'gamma': 2, 'verification': 'block'})}


@pytest.mark.parametrize('name', ['plain', pytest.param('block', marks=pytest.mark.long)])
def test_every_method(name):
  drafter, options = METHODS[name]
  assert_same(*both(TOY, drafter, toy_inputs(), **options), 1e-5)


FAMILIES = {'t5': tiny.random_t5, 'gpt2': families.random_gpt2}
MODELS = {name: (make(0), sd.ModelDrafter(make(1))) for name, make in FAMILIES.items()}


def of_family(name):
  """Target, drafter, tokens [11, 7] and lengths of every number; GPT-2's prompts have zeros that are tokens."""
  if name == 't5':
    return *MODELS[name], tiny.inputs(COUNT), None
  tokens = np.random.default_rng(0).integers(0, 20, (COUNT, 7)).astype(np.int32)
  return *MODELS[name], tokens, np.arange(COUNT, dtype=np.int32) % 7 + 1


@pytest.mark.parametrize('name', ['t5', pytest.param('gpt2', marks=pytest.mark.long)])
def test_every_family_and_its_caches(name):
  target, drafter, tokens, lengths = of_family(name)
  shortest_first = np.argsort((tokens != 0).sum(1) if lengths is None else lengths, kind='stable')
  ours, theirs = both(target, drafter, tokens, lengths, tree=TREE, order=shortest_first)
  assert_same(ours, theirs, 1e-4)
  assert len(set(ours.lengths.tolist())) > 1


@pytest.mark.parametrize('name', ['t5', pytest.param('gpt2', marks=pytest.mark.long)])
def test_order_and_place_change_no_bit(name):
  target, drafter, tokens, lengths = of_family(name)
  loop = lambda: running_decode(target, drafter, rows=3, length=7, tree=TREE, max_decode_len=8)
  first = drain(loop(), tokens, IDS, lengths)
  for order in (np.arange(COUNT)[::-1], np.random.default_rng(1).permutation(COUNT)):
    assert_same(drain(loop(), tokens, IDS, lengths, order), first)


def test_a_row_that_broke_leaves_nothing():
  """NaN in a row's caches does not reach whoever comes after it."""
  target, drafter, tokens, _ = of_family('t5')
  tokens = np.where(tokens == families.ODD, 6, tokens)
  tokens[::2, 0] = families.ODD
  ours, theirs = both(families.with_embedding(target, families.ODD, np.nan), drafter, tokens, tree=TREE)
  assert_same(ours, theirs, 1e-4)
  assert (ours.status[::2] == Status.NON_FINITE).all() and (ours.status[1::2] != Status.NON_FINITE).any()


def changed(**changes):
  """One program of toy models, whose numbers are traced: the results of both ways, and the loop's iterations."""
  return both(**{'target': TOY, 'drafter': sd.ModelDrafter(toy.random_toy(1)), 'tokens': toy_inputs(), 'gamma': 2,
                 **changes})


def test_ends_at_once_and_never():
  ours, theirs = changed(target=toy.random_toy(0, eos=60.0))
  assert_same(ours, theirs)
  assert (ours.lengths == 1).all() and (ours.status == Status.EOS).all()
  ours, theirs = changed(target=toy.random_toy(0, eos=-60.0))
  assert_same(ours, theirs, 1e-5)
  assert (ours.lengths == 8).all()
  ours, theirs = both(TOY, None, toy_inputs(), max_decode_len=1)
  assert_same(ours, theirs, 1e-5)
  assert (ours.stats.target_calls == 1).all()


@pytest.mark.parametrize('rows, hand_back, together', [(1, None, None), (3, 2, 1),
                                                       (16, 16, 3)])
def test_any_number_of_rows_and_returns(rows, hand_back, together):
  ours, theirs = both(TOY, None, toy_inputs(), rows=rows, hand_back=hand_back, together=together)
  assert_same(ours, theirs, 1e-5)


def test_row_iterations_are_counted():
  loop = running_decode(TOY, None, rows=4, length=6, max_decode_len=8)
  found = drain(loop, toy_inputs(), IDS)
  assert found.stats.target_calls.sum() <= 4 * loop.iterations <= found.stats.target_calls.sum() + 3 * 8


def test_nothing_compiles_again():
  programs = running._advance, running._put, running._encode
  before = [p._cache_size() for p in programs]
  changed(rows=2)
  compiled = [p._cache_size() for p in programs]
  assert [b - a for a, b in zip(before, compiled)] == [1, 1, 2], 'encoders for two lengths, one loop'
  changed(rows=2, order=np.arange(COUNT)[::-1], sampling=sd.Sampling(temperature=0.5), seed=9)
  assert [p._cache_size() for p in programs] == compiled


def test_what_does_not_fit_is_refused():
  loop = running_decode(TOY, None, rows=2, length=4)
  for tags, tokens in (([0, 1, 2], np.full((3, 2), 2)), ([0], np.full((1, 5), 2)), ([], np.full((0, 2), 2))):
    with pytest.raises(SettingError, match='do not fit 2 rows of 4'):
      loop.encode(tags, tokens, np.zeros(len(tags), int))
  with pytest.raises(SettingError, match='rows is 0'):
    running_decode(TOY, None, rows=0, length=4)
  with pytest.raises(SettingError, match='hand_back is 3'):
    running_decode(TOY, None, rows=2, length=4, hand_back=3)
  with pytest.raises(SettingError, match='block'):
    running_decode(TOY, TOY, rows=2, length=4, tree=TREE, verification='block')
