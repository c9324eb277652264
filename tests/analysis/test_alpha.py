import math

import jax.numpy as jnp
import numpy as np
import pytest

from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampling

WARM = Sampling(temperature=1.0)


@pytest.fixture(scope='module')
def tokens(target):
  return target.encode(['the file cannot be opened', 'new media', 'window is not valid here today'])


def test_alpha_is_the_mean_overlap_of_the_laws(target, draft, tokens):
  found = alpha_lib.alpha(target, draft, tokens, 1, WARM, seed=3, max_decode_len=10, batch_size=3)
  result = autoregressive_decode(target, tokens, sampling=WARM, seed=3, max_decode_len=10)
  total = 0.0
  for row in range(3):
    length = int(result.lengths[row])
    fed = np.concatenate([[0], result.tokens[row, :length - 1]])[None].astype(np.int32)
    laws = []
    for model in (target, draft):
      logits = np.asarray(model.logits(tokens[row:row + 1], fed), np.float64)[0]
      weights = np.exp(logits[:, :target.num_tokens])  # padding rows are in neither law
      laws.append(weights / weights.sum(-1, keepdims=True))
    total += np.minimum(*laws).sum()
  assert found.num_tokens == result.lengths.sum() and found.num_texts == 3
  assert found.alpha == pytest.approx(total / found.num_tokens, abs=1e-5)


def test_a_draft_equal_to_the_target_has_alpha_one(target, tokens):
  for sampling in (WARM, Sampling(temperature=0.0), Sampling(temperature=0.7, top_k=5, top_p=0.9)):
    same = alpha_lib.alpha(target, ModelDrafter(target), tokens, 20, sampling, max_decode_len=10)
    assert same.alpha == pytest.approx(1.0, abs=1e-5)


def test_greedy_alpha_counts_equal_first_tokens(target, draft, tokens):
  greedy = Sampling(temperature=0.0)
  result = autoregressive_decode(target, tokens, sampling=greedy, max_decode_len=10)
  fed = np.pad(result.tokens[:, :-1], ((0, 0), (1, 0)))
  first = lambda m: np.asarray(m.logits(tokens, fed))[..., :m.num_tokens].argmax(-1)
  same = (first(target) == first(draft)) & (np.arange(10) < result.lengths[:, None])
  found = alpha_lib.alpha(target, draft, tokens, 10_000, greedy, max_decode_len=10, batch_size=2)
  assert found.num_tokens == result.lengths.sum()  # a second round would repeat the texts
  assert found.alpha == pytest.approx(same.sum() / result.lengths.sum())


def test_sampling_goes_on_until_there_are_enough_tokens(target, draft, tokens):
  found = alpha_lib.alpha(target, draft, tokens, 100, WARM, max_decode_len=10, batch_size=2)
  assert found.num_tokens >= 100
  again = alpha_lib.alpha(target, draft, tokens, 100, WARM, max_decode_len=10, batch_size=2)
  assert again == found
  with pytest.raises(ValueError, match='num_tokens is 0'):
    alpha_lib.alpha(target, draft, tokens, 0)


def test_standard_error_takes_texts_as_units():
  rng = np.random.default_rng(0)
  counts = rng.integers(5, 30, 400)
  level = rng.uniform(0.4, 0.9, 400)  # texts differ, tokens within one do not
  found = alpha_lib.estimate(level * counts, counts)
  resampled = []
  for _ in range(500):
    pick = rng.integers(0, 400, 400)
    resampled.append((level * counts)[pick].sum() / counts[pick].sum())
  assert found.standard_error == pytest.approx(np.std(resampled), rel=0.15)


def test_texts_of_one_input_are_one_unit():
  sums, counts = [8.0, 8.0, 2.0, 2.0], [10, 10, 10, 10]
  apart = alpha_lib.estimate(sums, counts)
  grouped = alpha_lib.estimate(sums, counts, [0, 0, 1, 1])
  assert grouped.alpha == apart.alpha == 0.5
  assert grouped.standard_error == pytest.approx(0.3)
  assert apart.standard_error == pytest.approx(0.3 / math.sqrt(3))
  assert math.isnan(alpha_lib.estimate([3.0], [5]).standard_error)


def test_padding_rows_do_not_count(target, draft, tokens):
  """A draft that would put everything on a row that is no piece is masked as in decoding."""
  biased = draft.replace(params={**draft.params, 'decoder': {
      **draft.params['decoder'], 'logits_dense': {
          'kernel': draft.params['decoder']['logits_dense']['kernel'].at[:, target.num_tokens:].set(
              jnp.float32(9.0))}}})
  plain = alpha_lib.alpha(target, draft, tokens, 1, WARM, max_decode_len=10)
  assert alpha_lib.alpha(target, biased, tokens, 1, WARM, max_decode_len=10).alpha == pytest.approx(
      plain.alpha, abs=1e-6)
