import dataclasses
import types

import numpy as np
import pytest

from specdec_jax.analysis.cost import Cost
from specdec_jax.jobs.batching import Batch
from specdec_jax.jobs.methods import Method
from specdec_jax.measure import experiment
from specdec_jax.measure.timing import Timed
from specdec_jax.sampling import Sampling

DRAFTER = types.SimpleNamespace(name='stand-in')


def timed(method, rows=((5, 1), (6, 7)), seconds=(0.5, 0.25)):
  """One row a batch, with so many tokens as it has."""
  results = [types.SimpleNamespace(tokens=np.array([row]), lengths=np.array([len(row)]))
             for row in rows]
  return Timed(method=method, results=results, seconds=np.array(seconds), warm_up_seconds=1.0)


BATCHES = [Batch(indices=np.array([i]), tokens=np.ones((1, 3)), ids=np.array([i])) for i in (1, 0)]


@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_lenience_is_never_called_identical(temperature):
  sampling = Sampling(temperature=temperature)
  lenient = timed(Method(drafter=DRAFTER, lenience=0.5, sampling=sampling))
  alone = timed(Method(sampling=sampling))  # the same texts
  assert experiment.outputs(None, None, BATCHES, alone, lenient, None) == {
      'relation': 'inexact (lenience 0.5)'}


PARTS = Cost(gamma=2, draft_step=0.01, target_step=0.1, verify_pass=0.12, target_encoder=0.05, draft_encoder=0.01)


def checked(parts=PARTS, alone=(0.5, 0.3), speculative=(0.33, 0.2), spread=0.02):
  """4 and 2 steps alone, 2 and 1 iterations: 0.45 s and 0.25 s, 0.34 s and 0.20 s by the parts."""
  results = lambda calls: [types.SimpleNamespace(stats=types.SimpleNamespace(target_calls=np.array(c))) for c in calls]
  timed = lambda calls, seconds, spread: Timed(method=Method(), results=results(calls), seconds=np.array(seconds),
                                               warm_up_seconds=0.0, spread=spread)
  everything = {'target_alone': {'seconds': sum(alone)}, 'speculative': {'seconds': sum(speculative)},
                'speed_up': sum(alone) / sum(speculative)}
  return experiment.timings(timed([[4, 3], [2]], alone, spread), timed([[2, 2], [1]], speculative, 0.05), None,
                            everything, parts, 0.02)


def test_timings_that_agree():
  found = checked()
  assert found['reliable'] and found['reasons'] == []
  assert found['explained'] == {'target alone': pytest.approx(0.7 / 0.8), 'speculative': pytest.approx(0.54 / 0.53)}
  assert found['speed_up_by_parts'] == pytest.approx(0.7 / 0.54)
  assert found['spread'] == {'target alone': 0.02, 'speculative': 0.05, 'parts of an iteration': None}


@pytest.mark.parametrize('change, words', [
    (dict(spread=0.4), ['target alone: the median repeat took 40%']),
    (dict(parts=dataclasses.replace(PARTS, spread=0.2)), ['parts of an iteration: the median repeat took 20%']),
    (dict(parts=dataclasses.replace(PARTS, verify_pass=0.055)),
     ['a pass over 3 tokens took 0.55', 'speculative: the parts', 'the parts, timed alone, give a speed-up']),
    (dict(speculative=(0.2, 0.1)), ['speculative: the parts', 'the parts, timed alone, give a speed-up']),
    (dict(alone=(0.9, 0.9), speculative=(0.66, 0.4)), ['target alone: the parts', 'speculative: the parts',
                                                      'the parts, timed alone, give'])])
def test_timings_that_contradict_each_other(change, words):
  found = checked(**change)
  assert not found['reliable'] and len(found['reasons']) == len(words)
  assert all(reason.startswith(word) for reason, word in zip(found['reasons'], words))


def test_texts_come_in_the_order_of_the_inputs():
  target = types.SimpleNamespace(decode=lambda tokens, lengths=None: [str(row.tolist()) for row in tokens])
  assert experiment.texts(target, BATCHES, timed(Method())) == ['[6, 7]', '[5, 1]']


def test_speed_counts_some_of_the_batches():
  assert experiment.speed(BATCHES, timed(Method())) == {
      'tokens': 4, 'seconds': 0.75, 'tokens_per_second': 4 / 0.75}
  assert experiment.speed(BATCHES, timed(Method()), [1])['tokens_per_second'] == 8
