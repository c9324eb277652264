"""Every drafter: the law of the texts is the target's own, and a row depends on itself alone."""

import chisquare
from enumerated import TARGET, check
import every_drafter
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
import specdec_jax as sd
import toy


class Untruthful(sd.LookupDrafter):
  """Copies, but says that it drew from the uniform law."""

  def propose(self, state, history, position, first, keys, gamma, law):
    draft, q, state = super().propose(state, history, position, first, keys, gamma, law)
    return draft, jnp.full_like(q, 1 / law.num_rows), state


DRAFTERS = {**every_drafter.make(0), 'untruthful': Untruthful()}
SETTINGS = [
    (1, sd.Sampling()),
    (3, sd.Sampling(temperature=1.7, top_k=3)),
    *[pytest.param(g, s, marks=pytest.mark.long) for g, s in [
        (2, sd.Sampling(temperature=0.7, top_p=0.8)), (4, sd.Sampling(top_k=2)),
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
    (1, 2), (4, 5), *[pytest.param(g, b, marks=pytest.mark.long) for g, b in [(2, 1), (3, 3), (8, 2)]]])
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


INPUTS = np.array([[2, 3, 3, 2, 1], [3, 2, 1, 0, 0], [3, 3, 2, 3, 1], [2, 2, 3, 1, 0]], np.int32)
LASTING = toy.random_toy(0, eos=-3.0)


def decode(name, tokens, ids):
  return sd.speculative_decode(LASTING, every_drafter.switched(DRAFTERS, name), tokens, gamma=3,
                               max_decode_len=14, ids=ids)


@pytest.mark.parametrize('name', DRAFTERS)
def test_rows_depend_on_themselves_alone(name):
  whole = decode(name, INPUTS, [0, 1, 2, 3])
  order = np.array([2, 0, 3, 1])
  permuted = decode(name, INPUTS[order], order)
  np.testing.assert_array_equal(permuted.tokens, whole.tokens[order])
  np.testing.assert_array_equal(permuted.stats.accepted, whole.stats.accepted[order])
  others = decode(name, INPUTS[[1, 1, 0, 0]], [9, 1, 8, 7])  # other inputs and keys around row 1
  np.testing.assert_array_equal(others.tokens[1], whole.tokens[1])
  np.testing.assert_array_equal(others.stats.accepted[1], whole.stats.accepted[1])
  again = decode(name, INPUTS, [0, 1, 2, 3])  # nothing is left over from the requests before
  np.testing.assert_array_equal(again.stats.accepted, whole.stats.accepted)
