"""Decoders that take turns: texts and counts are their own, and times are shown only where they can be trusted."""

import dataclasses

import pytest
from tiny_pair import SENTENCES

import specdec_jax as sd
from specdec_jax.jobs.methods import Method
from specdec_jax.measure.turns import Turns, take_turns

GREEDY = sd.Sampling(temperature=0.0)


@pytest.fixture(scope='module')
def turns(target, draft):
  methods = {'alone': Method(sampling=GREEDY, max_decode_len=8),
             'drafted': Method(sampling=GREEDY, max_decode_len=8, drafter=draft, gamma=2)}
  return take_turns(target, methods, SENTENCES[:3], repeats=2)


def with_times(turns, alone, drafted, spread=0.01):
  times = {'alone': alone, 'drafted': drafted}
  return Turns(turns.batches, {name: dataclasses.replace(t, seconds=t.seconds * 0 + times[name], spread=spread)
                               for name, t in turns.timed.items()})


def test_texts_and_counts(turns, target, draft):
  assert len(turns.batches) == 3 and {b.tokens.shape for b in turns.batches} == {(1, 16)}
  assert [b.tokens[0, b.tokens[0] > 0].tolist() for b in turns.batches] == target.encode_rows(SENTENCES[:3])
  results = [sd.speculative_decode(target, draft, b.tokens, gamma=2, max_decode_len=8, sampling=GREEDY, ids=b.ids)
             for b in turns.batches]
  assert turns.equal_texts('drafted') == turns.equal_texts('alone') == 3 and turns.tokens_per_call('alone') == 1
  assert turns.tokens_per_call('drafted') == pytest.approx(
      sum(r.lengths[0] for r in results) / sum(r.stats.target_calls[0] for r in results))


def test_reliable_times_are_shown(turns):
  shown = with_times(turns, 0.2, 0.1)
  assert shown.speed_up('drafted') == pytest.approx(2) and not shown.reasons
  text = shown._repr_markdown_()
  assert repr(shown) == text, 'printed it is the table, too'
  assert '2.00X' in text and '3 of 3' in text and 'Warning' not in text


def test_of_unreliable_times_only_the_reason_is_shown(turns):
  text = with_times(turns, 0.2, 0.1, spread=0.5).markdown()
  assert '2.00X' not in text and 'drafted: the median repeat took 50% longer than the fastest' in text
  assert '3 of 3' in text


def test_of_samples_no_texts_are_compared(turns):
  sampled = {name: dataclasses.replace(t, method=dataclasses.replace(t.method, sampling=sd.Sampling()))
             for name, t in turns.timed.items()}
  assert 'texts equal' not in Turns(turns.batches, sampled).markdown()
