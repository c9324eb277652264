"""No drafter sees padding: neither how much of it there is, nor which id it has."""

import every_drafter
import numpy as np
import prompted_toy
import pytest
import toy

import specdec_jax as sd

SIZE = 6
DRAFTERS = every_drafter.make(0, SIZE)
TABLE = toy.random_toy(0, SIZE)
TREES = {'chain': sd.Tree.chain(3), 'tree': sd.Tree.full((2, 1))}


def assert_same(a, b):
  for field in ('tokens', 'lengths', 'status'):
    np.testing.assert_array_equal(getattr(a, field), getattr(b, field))
  np.testing.assert_array_equal(a.stats.accepted, b.stats.accepted)


FEW = {('model', 'tree'), ('heads', 'tree'), *((name, 'chain') for name in DRAFTERS)}
# For prompts; layers: drafters/test_heads.py.
PROMPTED = {name: drafter.replace(draft=prompted_toy.prompted(drafter.draft))
            if isinstance(drafter, sd.ModelDrafter) else drafter
            for name, drafter in DRAFTERS.items() if name != 'layer'}


@pytest.mark.parametrize('name, tree', [
    pytest.param(name, tree, marks=() if (name, tree) in FEW else pytest.mark.long)
    for name in PROMPTED for tree in TREES if (name, tree) != ('drafted model', 'tree')])
def test_of_prompts(name, tree):
  """Any id may be a real token there, so only the prompts' lengths say where they end."""
  target = prompted_toy.prompted(TABLE)
  drafter = every_drafter.switched(PROMPTED, name) if tree == 'chain' else PROMPTED[name]
  prompts = [[3], [2, 0, 3, 5], [4, 2], [5, 3, 2, 4, 2]]
  lengths = np.array([len(p) for p in prompts] * 10)

  def decode(padding, width):
    tokens = np.array([(p + [padding] * width)[:width] for p in prompts] * 10)
    return sd.speculative_decode(target, drafter, tokens, lengths=lengths, tree=TREES[tree], max_decode_len=8,
                                 sampling=sd.Sampling(temperature=1.3))

  whole = decode(0, 5)
  assert whole.stats.accepted.sum() > 0
  for padding, width in ((2, 5), (5, 5), (3, 9)):
    assert_same(decode(padding, width), whole)


@pytest.mark.parametrize('name', DRAFTERS)
def test_of_an_encoder(name):
  tokens = np.array([[2, 3, 1, 0], [4, 5, 2, 1], [3, 1, 0, 0]] * 10)
  drafter = every_drafter.switched(DRAFTERS, name)
  decode = lambda tokens: sd.speculative_decode(TABLE, drafter, tokens, gamma=3, max_decode_len=8)
  assert_same(decode(np.pad(tokens, ((0, 0), (0, 3)))), decode(tokens))


def test_of_an_encoder_whose_padding_is_another_id():
  """Id 0 is a real token where the model's padding is another."""
  ours = TABLE.replace(config=toy.config(SIZE, pad_id=3))
  tokens = np.array([[2, 0, 1, 3], [4, 0, 2, 1], [0, 1, 3, 3]] * 10)
  decode = lambda tokens: sd.speculative_decode(ours, sd.LookupDrafter(), tokens, gamma=3, max_decode_len=8,
                                                buckets=(tokens.shape[1],))
  first = decode(tokens)
  padded = np.pad(tokens, ((0, 0), (0, 2)), constant_values=3)
  # The toy's table goes by the sum of a row's ids: two more of id 3 are 6, which is even.
  assert_same(decode(padded), first)
