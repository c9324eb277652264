"""One way from raw logits to distributions: vocabulary rows, processors at every position, draws."""

import chisquare
import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(2, 3, 8)).astype(np.float32)
HISTORY = np.array([[0, 3, 4, 5, 2, 2], [0, 6, 3, 3, 7, 7]], np.int32)
LENGTHS = np.array([[1, 2, 3], [2, 3, 4]], np.int32)
PREFIX_END = np.zeros(2, np.int32)


def standardizer(**changes):
  settings = {'sampling': Sampling(), 'num_rows': 8, 'num_tokens': 8, **changes}
  return Standardizer.of(settings.pop('sampling'), **settings)


def probabilities(logits=LOGITS, history=HISTORY, lengths=LENGTHS, prefix_end=PREFIX_END, **changes):
  made = standardizer(**changes)
  return np.asarray(made.probabilities(made.process(logits, history, lengths, prefix_end)))


def softmax(x):
  return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def test_plain_distribution_is_the_softmax():
  np.testing.assert_allclose(probabilities(), softmax(LOGITS), rtol=1e-5)


def test_padding_rows_get_nothing_and_the_rest_is_conditioned_on_real_ids():
  got = probabilities(num_tokens=5)
  np.testing.assert_array_equal(got[..., 5:], 0)
  np.testing.assert_allclose(got[..., :5], softmax(LOGITS[..., :5]), rtol=1e-5)


def test_tables_of_other_sizes_are_cut_and_padded():
  larger = np.concatenate([LOGITS, np.full((2, 3, 4), 50, np.float32)], -1)
  np.testing.assert_array_equal(probabilities(larger), probabilities())
  got = probabilities(LOGITS[..., :6])
  np.testing.assert_array_equal(got[..., 6:], 0)
  np.testing.assert_allclose(got[..., :6], softmax(LOGITS[..., :6]), rtol=1e-5)


def test_masked_rows_do_not_take_a_place_in_top_k():
  logits = np.array([[[0, 1, 2, 3, 9, 9, 9, 9]]], np.float32)
  got = probabilities(logits, HISTORY[:1], LENGTHS[:1, :1], PREFIX_END[:1], num_tokens=4, sampling=Sampling(top_k=2))
  np.testing.assert_allclose(got[0, 0, :4], [0, 0, 1 / (1 + np.e), np.e / (1 + np.e)], rtol=1e-5)


def test_processors_see_each_position_with_its_own_past():
  seen = []

  def spy(logits, context):
    jax.debug.callback(lambda *c: seen.append([np.asarray(x).tolist() for x in c]),
                       context.tokens, context.length, context.generated)
    return logits

  probabilities(processors=(spy,))
  jax.effects_barrier()
  assert sorted(seen) == sorted([
      [[0, 0, 0, 0, 0, 0], 1, 0], [[0, 3, 0, 0, 0, 0], 2, 1], [[0, 3, 4, 0, 0, 0], 3, 2],
      [[0, 6, 0, 0, 0, 0], 2, 1], [[0, 6, 3, 0, 0, 0], 3, 2], [[0, 6, 3, 3, 0, 0], 4, 3]])


def test_given_tokens_are_not_counted_as_generated():
  def mark(logits, context):
    return logits.at[0].set(context.generated.astype(jnp.float32))

  for end in (0, 1):
    got = probabilities(np.zeros((2, 3, 8), np.float32), prefix_end=np.full(2, end, np.int32), processors=(mark,))
    expected = np.zeros((2, 3, 8))
    expected[..., 0] = LENGTHS - 1 - end
    np.testing.assert_allclose(got, softmax(expected), rtol=1e-5)


def test_processors_run_in_order_on_masked_logits_before_standardisation():
  double = lambda logits, context: logits * 2
  add = lambda logits, context: logits.at[0].add(1.0)
  got = probabilities(processors=(double, add), num_tokens=5, sampling=Sampling(temperature=0.5))
  expected = LOGITS[..., :5] * 2
  expected[..., 0] += 1
  np.testing.assert_allclose(got[..., :5], softmax(expected / 0.5), rtol=1e-4)
  assert (got[..., 5:] == 0).all()


def test_sample_takes_one_token_a_row_by_its_own_key():
  logits = jnp.tile(jnp.log(jnp.array([0.1, 0.0, 0.6, 0.3])), (20_000, 1))
  keys = lambda logits: jax.random.split(jax.random.key(0), len(logits))
  sample = lambda logits, **settings: standardizer(**settings).sample(logits, keys(logits))
  drawn, q = sample(logits)
  np.testing.assert_allclose(q[7], [0.1, 0.0, 0.6, 0.3], rtol=1e-5)
  assert chisquare.counts(np.bincount(drawn, minlength=4), q[0]) > chisquare.ACCEPT
  first, one_hot = sample(jnp.array([[1.0, 0.0, 2.0, 2.0], [3.0, 0.0, 2.0, -1.0]]),
                          sampling=Sampling(temperature=0))
  np.testing.assert_array_equal(first, [2, 0])
  np.testing.assert_array_equal(one_hot, np.eye(4)[[2, 0]])


def test_each_place_may_have_a_text_of_its_own():
  def mark(logits, context):
    return logits.at[0].set(context.tokens.sum().astype(jnp.float32))

  histories = np.stack([HISTORY + i for i in range(3)], axis=1)  # [B, T, N]
  got = standardizer(processors=(mark,)).process(LOGITS, histories, LENGTHS, PREFIX_END)[..., 0]
  expected = [[histories[b, t, :LENGTHS[b, t]].sum() for t in range(3)] for b in range(2)]
  np.testing.assert_array_equal(got, expected)


def test_processors_know_what_ends_a_text():
  spied = []
  spy = lambda logits, context: spied.append(context.eos_ids) or logits
  probabilities(processors=(spy,), eos_ids=(3, 5))
  assert set(spied) == {(3, 5)}
