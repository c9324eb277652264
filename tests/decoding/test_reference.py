"""The whole loop against plain Python, token by token and count by count."""

import numpy as np
import pytest
import reference
import toy
from hypothesis import given, settings, strategies as st

import specdec_jax as sd
from specdec_jax.results import Status

GREEDY = sd.Sampling(temperature=0)
CASES = [
    (1, GREEDY, 7),
    (2, sd.Sampling(), 7),
    (4, GREEDY, 6),
    (3, sd.Sampling(temperature=1.7, top_k=3, top_p=0.9), 8),
    (6, sd.Sampling(), 4),
]
BATCH = 10
SOURCES = np.concatenate([toy.sources(BATCH // 2, 0), toy.sources(BATCH // 2, 1)])
TARGET = toy.random_toy(0, vocab_size=5, eos=-0.5)
DRAFTS = {
    'another': toy.random_toy(1, vocab_size=5),
    'near': TARGET.replace(params=TARGET.params + 0.3 * toy.random_toy(2, vocab_size=5).params),
    'itself': TARGET,
    'contrary': toy.scaled(TARGET, -1.0),
}


@pytest.mark.parametrize('kind', DRAFTS)
@pytest.mark.parametrize('gamma, sampling, length', CASES, ids=lambda v: str(v).replace('Sampling', ''))
def test_loop_equals_plain_python(gamma, sampling, length, kind):
  draft, ids = DRAFTS[kind], np.arange(100, 100 + BATCH)
  r = sd.speculative_decode(TARGET, sd.ModelDrafter(draft), SOURCES, gamma=gamma, sampling=sampling,
                            max_decode_len=length, seed=7, ids=ids)
  for row in range(BATCH):
    plain = reference.decode(TARGET, draft, row // (BATCH // 2), gamma=gamma, sampling=sampling,
                             length=length, seed=7, row_id=ids[row])
    assert r.tokens[row, :r.lengths[row]].tolist() == plain.tokens
    assert r.stats.target_calls[row] == plain.target_calls
    assert r.stats.drafted[row] == plain.drafted
    assert r.stats.accepted[row] == plain.accepted
    assert r.stats.accepted_by_position[row].tolist() == plain.accepted_by_position
    assert r.stats.drafted_by_position[row].tolist() == plain.drafted_by_position


def assert_sound(r, target, gamma, length):
  """What holds for every decode."""
  place = np.arange(length)
  text = place < r.lengths[:, None]
  assert (r.tokens[~text] == 0).all()
  assert (r.lengths == r.stats.emitted).all()
  assert ((1 <= r.lengths) & (r.lengths <= length)).all()
  is_eos = (r.tokens == toy.EOS) & text
  ends = is_eos[np.arange(len(text)), r.lengths - 1]
  assert (is_eos.sum(1) == ends).all()
  assert (r.status == np.where(ends, Status.EOS, Status.LENGTH)).all()
  assert (ends | (r.lengths == length)).all()

  s = r.stats
  assert (s.accepted_by_position.sum(1) == s.accepted).all()
  assert (s.drafted_by_position.sum(1) == s.drafted).all()
  assert (s.accepted_by_position <= s.drafted_by_position).all()
  assert all((np.diff(n, axis=1) <= 0).all() for n in (s.accepted_by_position, s.drafted_by_position))
  assert ((s.accepted <= s.drafted) & (s.drafted <= gamma * s.target_calls)).all()
  assert (s.target_calls <= s.emitted).all()
  assert (s.emitted <= s.accepted + s.target_calls).all()

  for row in range(len(r.tokens)):
    tokens, log_prob = [target.config.decoder_start_id], 0.0
    for token in r.tokens[row, :r.lengths[row]]:
      distribution = reference.next_distribution(target, row % toy.NUM_SOURCES, tokens, sd.Sampling())
      log_prob += np.log(distribution[token])
      tokens.append(int(token))
    assert abs(r.scores[row] - log_prob) < 1e-4


@pytest.mark.parametrize('gamma, length', [(3, 7), pytest.param(5, 3, marks=pytest.mark.long)])
@settings(max_examples=40)
@given(data=st.data())
def test_results_are_sound(gamma, length, data):
  seeds = data.draw(st.tuples(*[st.integers(0, 2**32 - 1)] * 3))
  spread, eos = data.draw(st.sampled_from([0.3, 1.0, 3.0])), data.draw(st.sampled_from([-4.0, 0.0, 2.0]))
  target = toy.random_toy(seeds[0], spread=spread, eos=eos)
  draft = toy.scaled(toy.random_toy(seeds[1]), data.draw(st.sampled_from([0.0, 1.0, 4.0])))
  if data.draw(st.booleans()):
    draft = toy.scaled(target, data.draw(st.sampled_from([-2.0, 1.0, 2.0])))
  tokens = np.concatenate([toy.sources(1, i % toy.NUM_SOURCES) for i in range(6)])
  ids = data.draw(st.lists(st.integers(0, 2**32 - 1), min_size=6, max_size=6))
  r = sd.speculative_decode(target, sd.ModelDrafter(draft), tokens, gamma=gamma,
                            max_decode_len=length, seed=seeds[2], ids=ids)
  assert_sound(r, target, gamma, length)
  b = sd.autoregressive_decode(target, tokens, max_decode_len=length, seed=seeds[2], ids=ids)
  assert_sound(b, target, 0, length)
  assert (b.stats.target_calls == b.stats.emitted).all()
  assert b.stats.drafted.sum() == b.stats.accepted.sum() == 0


def test_rates_are_ratios_of_the_counts():
  r = sd.speculative_decode(TARGET, sd.ModelDrafter(DRAFTS['near']), SOURCES, gamma=2,
                            max_decode_len=7, seed=7, ids=np.arange(BATCH))
  assert r.stats.acceptance_rate == r.stats.accepted.sum() / r.stats.drafted.sum()
  assert r.stats.tokens_per_call == r.stats.emitted.sum() / r.stats.target_calls.sum()
