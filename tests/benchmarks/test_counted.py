"""Other programs' texts are counted as ours."""

import numpy as np

from specdec_jax.benchmarks.counted import as_result
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling

LENGTH = 6


def test_tokens_are_counted_up_to_the_first_eos():
  result = as_result([[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 9, 1], [0, 4, 0, 1]], eos_ids=(1,))
  assert result.lengths.tolist() == [2, 4, 2, 4]
  assert result.tokens.tolist() == [[5, 1, 0, 0], [5, 6, 7, 8], [5, 1, 0, 0], [0, 4, 0, 1]]
  assert result.status.tolist() == [Status.EOS, Status.LENGTH, Status.EOS, Status.EOS]
  assert result.stats.emitted.tolist() == result.stats.target_calls.tolist() == [2, 4, 2, 4]


def test_texts_of_any_length_and_any_of_several_eos():
  result = as_result([[5, 3, 9], ['4'], [7, 7, 7, 7, 7, 1]], eos_ids=(1, 3), max_decode_len=5)
  assert result.tokens.tolist() == [[5, 3, 0, 0, 0], [4, 0, 0, 0, 0], [7, 7, 7, 7, 7]]
  assert result.status.tolist() == [Status.EOS, Status.LENGTH, Status.LENGTH]


def test_counts_agree_with_our_own_decode(target):
  tokens = target.encode(['the file is not valid', 'new window'])
  ours = autoregressive_decode(target, tokens, sampling=Sampling(temperature=0.0), max_decode_len=LENGTH)
  counted = as_result(ours.tokens, target.eos_ids)
  for name in ('tokens', 'lengths', 'status'):
    np.testing.assert_array_equal(getattr(counted, name), getattr(ours, name))
