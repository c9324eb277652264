import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest
import toy

import specdec_jax as sd
from specdec_jax.analysis import alpha as alpha_lib
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampling

WARM = Sampling(temperature=1.0)


@pytest.fixture(scope='module')
def tokens(target):
  return target.encode(['the file cannot be opened', 'new media', 'window is not valid here today'])


def test_alpha_is_the_mean_overlap_of_the_distributions(target, draft, tokens):
  found = alpha_lib.alpha(target, draft, tokens, 1, WARM, seed=3, max_decode_len=10, batch_size=3)
  result = autoregressive_decode(target, tokens, sampling=WARM, seed=3, max_decode_len=10)
  total = 0.0
  for row in range(3):
    length = int(result.lengths[row])
    fed = np.concatenate([[0], result.tokens[row, :length - 1]])[None].astype(np.int32)
    distributions = []
    for model in (target, draft):
      logits = np.asarray(model.logits(tokens[row:row + 1], fed), np.float64)[0]
      weights = np.exp(logits[:, :target.num_tokens])  # padding rows are in neither distribution
      distributions.append(weights / weights.sum(-1, keepdims=True))
    total += np.minimum(*distributions).sum()
  assert found.num_tokens == result.lengths.sum() and found.num_texts == 3
  assert found.alpha == pytest.approx(total / found.num_tokens, abs=1e-5)


@pytest.mark.parametrize('sampling', [
    pytest.param(WARM, marks=pytest.mark.long), Sampling(temperature=0.0),
    Sampling(temperature=0.7, top_k=5, top_p=0.9)], ids=str)
def test_a_draft_equal_to_the_target_has_alpha_one(target, tokens, sampling):
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


class Soft(sd.RandomDrafter):
  """Says one distribution everywhere; nothing is ever proposed."""

  q: tuple = ()

  def distributions(self, request, history, prefix_end, standardizer):
    return jnp.broadcast_to(jnp.asarray(self.q, jnp.float32), (*history[:, 1:].shape, standardizer.num_rows))


def test_lenient_alpha_of_every_token(target, draft, tokens):
  """Against the definitions, in numpy, for distributions that the draft says of itself."""
  result = autoregressive_decode(target, tokens, sampling=WARM, max_decode_len=10)
  fed = np.pad(result.tokens[:, :-1], ((0, 0), (1, 0)))
  p = np.exp(np.asarray(target.logits(tokens, fed), np.float64)[..., :target.num_tokens])
  p = np.pad(p / p.sum(-1, keepdims=True), ((0, 0), (0, 0), (0, 128 - target.num_tokens)))
  q = np.random.default_rng(0).dirichlet(np.full(128, 0.3))
  text = np.arange(10) < result.lengths[:, None]
  for lenience in (1.0, 0.3, 0.0):
    betas = functools.partial(alpha_lib.token_betas, target, Soft(q=tuple(q)), tokens, result.tokens, result.lengths,
                              lenience=lenience)
    lenient = np.where(p > 0, np.minimum(p / max(lenience, 1e-30), q), 0).sum(-1)
    np.testing.assert_allclose(betas(WARM), np.where(text, lenient, 0), atol=1e-5)
    kept = (p >= lenience * p.max(-1, keepdims=True)) & (p > 0)
    greedy = (q * kept).sum(-1)
    np.testing.assert_allclose(betas(Sampling(temperature=0.0)), np.where(text, greedy, 0), atol=1e-5)


@pytest.mark.parametrize('sampling', [WARM, Sampling(temperature=0.0)], ids=str)
def test_several_leniences_at_once(target, draft, tokens, sampling):
  result = autoregressive_decode(target, tokens, sampling=sampling, max_decode_len=10)
  betas = lambda lenience: alpha_lib.token_betas(
      target, draft, tokens, result.tokens, result.lengths, sampling, lenience=lenience)
  together = betas((1.0, 0.05))
  assert together.shape == (2, 3, 10) and (together[1] > together[0] + 0.01).any()
  np.testing.assert_allclose(together, [betas(1.0), betas(0.05)], atol=1e-6)


def expected_alpha(target, draft, source, length, lenience):
  """Cor. 3.6 with lenience by enumeration: expected sum of the betas of a text over its expected length."""
  softmax = lambda logits: np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
  betas = tokens = 0.0
  texts = [((0,), 1.0)]  # after the start token; the probability of getting there
  while texts:
    text, probability = texts.pop()
    p, q = (softmax(model.next_logits(source, text)) for model in (target, draft))
    betas += probability * np.minimum(p / lenience, q).sum()
    tokens += probability
    texts += [((*text, x), probability * p[x]) for x in range(len(p)) if x != toy.EOS and len(text) < length]
  return betas / tokens


@pytest.mark.parametrize('lenience', [1.0, 0.3])
def test_over_many_seeds_alpha_is_its_exact_value(lenience):
  """One seed may lie some standard errors away; the mean of thirty has a thirtieth of their variance."""
  pair, length = (toy.random_toy(0), toy.random_toy(1)), 5
  exact = expected_alpha(*pair, 0, length, lenience)
  found = [alpha_lib.alpha(*pair, toy.sources(64), 1000, WARM, seed, lenience=lenience, max_decode_len=length,
                           batch_size=64) for seed in range(30)]
  off = np.array([(f.alpha - exact) / f.standard_error for f in found])
  assert abs(off.mean()) < 3 / np.sqrt(len(off))
  assert 0.7 < off.std() < 1.4  # the standard errors are what they should be


def test_lenience_raises_alpha_and_must_be_in_range(target, draft, tokens):
  greedy = Sampling(temperature=0.0)
  found = [float(alpha_lib.alpha(target, draft, tokens, 1000, greedy, lenience=lenience, max_decode_len=10))
           for lenience in (1.0, 0.3, 0.0)]
  assert found[0] < found[1] < found[2] == pytest.approx(1.0)
  with pytest.raises(ValueError, match='lenience is 1.5'):
    alpha_lib.alpha(target, draft, tokens, lenience=1.5)


def test_means_by_position(target, draft, tokens):
  found = alpha_lib.alpha(target, draft, tokens, 60, WARM, max_decode_len=10, by_position=True)
  assert found.tokens_by_position[0] == found.num_texts and sum(found.tokens_by_position) == found.num_tokens
  assert list(found.tokens_by_position) == sorted(found.tokens_by_position, reverse=True)
  assert np.dot(found.by_position, found.tokens_by_position) / found.num_tokens == pytest.approx(found.alpha)
  means = alpha_lib.means_by_position(np.array([[0.5, 1.0, 0, 0], [0.1, 0, 0, 0]]), [2, 1])
  assert means == {'by_position': (0.3, 1.0), 'tokens_by_position': (2, 1)}


def test_drafters_without_a_model(target, tokens):
  """Random tokens: one in all at temperature 0, the overlap with the uniform distribution above it."""
  count = target.num_tokens
  found = alpha_lib.alpha(target, sd.RandomDrafter(), tokens, 30, Sampling(temperature=0.0), max_decode_len=10)
  assert found.alpha == pytest.approx(1 / count)
  table = sd.NGramDrafter.fit(autoregressive_decode(
      target, tokens, sampling=Sampling(temperature=0.0), max_decode_len=10).tokens, num_tokens=count)
  greedy = [float(alpha_lib.alpha(target, d, tokens, 30, Sampling(temperature=0.0), max_decode_len=10))
            for d in (table, sd.LookupDrafter(source='output'))]
  assert greedy[0] > 0.3  # it has seen these very texts
  assert 0 <= greedy[1] <= 1
  other = sd.NGramDrafter.fit([[2, 1]], num_tokens=1000)
  with pytest.raises(ValueError, match='has 1000 tokens'):
    alpha_lib.alpha(target, other, tokens)
