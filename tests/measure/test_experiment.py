import types

import numpy as np
import pytest

from specdec_jax.jobs.batching import Batch
from specdec_jax.measure import experiment
from specdec_jax.measure.methods import Method
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


def test_texts_come_in_the_order_of_the_inputs():
  target = types.SimpleNamespace(decode=lambda tokens: [str(row.tolist()) for row in tokens])
  assert experiment.texts(target, BATCHES, timed(Method())) == ['[6, 7]', '[5, 1]']


def test_speed_counts_some_of_the_batches():
  assert experiment.speed(BATCHES, timed(Method())) == {
      'tokens': 4, 'seconds': 0.75, 'tokens_per_second': 4 / 0.75}
  assert experiment.speed(BATCHES, timed(Method()), [1])['tokens_per_second'] == 8
