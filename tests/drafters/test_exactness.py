"""Every drafter: the distribution of the texts is the target's own, and a row depends on itself alone."""

import chisquare
import enumerated
import every_drafter
import jax.numpy as jnp
import numpy as np
import pytest
import toy
from enumerated import TARGET, check
from hypothesis import given, settings, strategies as st

import specdec_jax as sd


class Untruthful(sd.LookupDrafter):
  """Copies, but says that it drew from the uniform distribution."""

  def propose(self, state, text, tree, keys, standardizer):
    proposal, state = super().propose(state, text, tree, keys, standardizer)
    batch, gamma = proposal.tokens.shape
    uniform = jnp.full((batch, gamma, standardizer.num_rows), 1 / standardizer.num_rows, jnp.float32)
    return proposal.replace(q=uniform), state


DRAFTERS = {**every_drafter.make(0), 'untruthful': Untruthful()}
OF_ROWS = (3, sd.Sampling(temperature=1.7, top_k=3))
SETTINGS = [
    OF_ROWS,
    *[pytest.param(g, s, marks=pytest.mark.long) for g, s in [
        (1, sd.Sampling()), (2, sd.Sampling(temperature=0.7, top_p=0.8)), (4, sd.Sampling(top_k=2)),
        (5, sd.Sampling(temperature=0.5, top_k=3, top_p=0.9)), (8, sd.Sampling())]],
]


@pytest.mark.parametrize('gamma, sampling', SETTINGS, ids=lambda v: str(v).replace('Sampling', ''))
@pytest.mark.parametrize('name', DRAFTERS)
def test_texts_follow_the_target(gamma, sampling, name):
  p_value, r = check(TARGET, every_drafter.switched(DRAFTERS, name), gamma=gamma, sampling=sampling,
                     seed=gamma)
  if name == 'untruthful':  # the check can fail
    assert p_value < chisquare.REJECT
  else:
    assert p_value > chisquare.ACCEPT
    assert r.stats.accepted.sum() > 0


GREEDY, LENGTH, SIZE = sd.Sampling(temperature=0), 10, 6


def greedy_text(model, source):
  text = [0]
  while len(text) <= LENGTH and toy.EOS not in text[1:]:
    text.append(int(np.argmax(model.next_logits(source, text))))
  return text[1:]


@pytest.mark.parametrize('gamma, batch', [
    (4, 5), *[pytest.param(g, b, marks=pytest.mark.long) for g, b in [(1, 2), (2, 1), (3, 3), (8, 2)]]])
def test_greedy_texts_are_the_targets_own(gamma, batch):
  @settings(max_examples=25)
  @given(st.integers(0, 10), st.sampled_from(sorted(every_drafter.make(0, SIZE))), st.integers(0, 99))
  def equal(seed, name, model_seed):
    target = toy.random_toy(model_seed, SIZE, eos=-1.0)
    tokens = np.concatenate([toy.sources(1, (row + seed) % 2) for row in range(batch)])
    r = sd.speculative_decode(target, every_drafter.switched(every_drafter.make(seed, SIZE), name),
                              tokens, gamma=gamma, sampling=GREEDY, max_decode_len=LENGTH)
    for row in range(batch):
      assert r.tokens[row, :r.lengths[row]].tolist() == greedy_text(target, (row + seed) % 2)

  equal()


def decode(name, tokens, ids):
  gamma, sampling = OF_ROWS
  return sd.speculative_decode(TARGET, every_drafter.switched(DRAFTERS, name), tokens, gamma=gamma,
                               sampling=sampling, max_decode_len=enumerated.LENGTH, ids=ids)


@pytest.mark.long
@pytest.mark.parametrize('name', DRAFTERS)
def test_rows_depend_on_themselves_alone(name):
  rng, ids = np.random.default_rng(0), np.arange(1000)
  tokens = rng.integers(1, 4, (len(ids), 2)).astype(np.int32)
  whole = decode(name, tokens, ids)
  order = rng.permutation(len(ids))
  permuted = decode(name, tokens[order], order)
  np.testing.assert_array_equal(permuted.tokens, whole.tokens[order])
  np.testing.assert_array_equal(permuted.stats.accepted, whole.stats.accepted[order])
  others = rng.integers(1, 4, tokens.shape).astype(np.int32)  # other inputs and keys around every second
  mixed = decode(name, np.where(ids[:, None] % 2, tokens, others), np.where(ids % 2, ids, ids + 10**6))
  np.testing.assert_array_equal(mixed.tokens[1::2], whole.tokens[1::2])
  np.testing.assert_array_equal(mixed.stats.accepted[1::2], whole.stats.accepted[1::2])
  assert (mixed.tokens[::2] != whole.tokens[::2]).any()
  again = decode(name, tokens, ids)  # nothing is left over from the requests before
  np.testing.assert_array_equal(again.stats.accepted, whole.stats.accepted)
