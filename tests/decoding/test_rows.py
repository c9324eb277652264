"""A row depends on (seed, its id) and its own input: not on place, neighbours, padding or batch size."""

import jax
import loops
import numpy as np
import pytest
import tiny
import toy

import specdec_jax as sd
from specdec_jax.decoding import decode_loop

LENGTH, GAMMA = 10, 2
TOYS = toy.random_toy(0, eos=-1.0), toy.random_toy(1)
T5S = tiny.random_t5(0), tiny.random_t5(1)


def decode(models, tokens, **options):
  return sd.speculative_decode(models[0], sd.ModelDrafter(models[1]), tokens, gamma=GAMMA,
                               max_decode_len=LENGTH, **options)


def assert_rows(ours, theirs, rows):
  """`ours` are the given rows of `theirs`, counts included."""
  np.testing.assert_array_equal(ours.tokens, theirs.tokens[rows])
  np.testing.assert_array_equal(ours.status, theirs.status[rows])
  np.testing.assert_allclose(ours.scores, theirs.scores[rows], atol=1e-4)
  for name in ('target_calls', 'drafted', 'accepted', 'emitted', 'accepted_by_position',
               'drafted_by_position'):
    np.testing.assert_array_equal(getattr(ours.stats, name), getattr(theirs.stats, name)[rows])


INPUTS = {'toy': (TOYS, np.concatenate([toy.sources(3, 0), toy.sources(3, 1)])),
          't5': (T5S, tiny.inputs(6))}


@pytest.mark.parametrize('kind', INPUTS)
def test_permuted_rows_with_their_ids_give_permuted_results(kind):
  models, tokens = INPUTS[kind]
  order = np.array([4, 0, 5, 2, 1, 3])
  assert_rows(decode(models, tokens[order], ids=order), decode(models, tokens), order)


@pytest.mark.parametrize('kind', INPUTS)
def test_other_rows_do_not_matter(kind):
  models, tokens = INPUTS[kind]
  others = tokens[::-1].copy()
  others[2] = tokens[2]
  ids = np.array([10, 11, 2, 13, 14, 15])
  ours, theirs = decode(models, others, ids=ids), decode(models, tokens)
  np.testing.assert_array_equal(ours.tokens[2], theirs.tokens[2])
  assert (ours.tokens != theirs.tokens).any()


@pytest.mark.parametrize('kind', INPUTS)
def test_one_row_alone_gives_the_same_result(kind):
  models, tokens = INPUTS[kind]
  together = decode(models, tokens)
  for row in (0, 4):
    assert_rows(decode(models, tokens[row:row + 1], ids=[row]), together, [row])


def test_padding_of_the_input_does_not_matter():
  models, tokens = INPUTS['t5']
  assert_rows(decode(models, np.pad(tokens, ((0, 0), (0, 5)))), decode(models, tokens), np.arange(6))


def test_same_input_with_other_ids_or_seeds_gives_other_texts():
  tokens = np.tile(tiny.inputs(1), (6, 1))
  first = decode(T5S, tokens)
  assert len({row.tobytes() for row in first.tokens}) == 6
  assert_rows(decode(T5S, tokens), first, np.arange(6))
  assert_rows(decode(T5S, tokens, ids=[3] * 6), first, [3] * 6)
  assert (decode(T5S, tokens, seed=1).tokens != first.tokens).any(axis=1).sum() > 3
  assert (decode(T5S, tokens, ids=[2**32 - 1, 10, 11, 12, 13, 14]).tokens != first.tokens).any()


@pytest.mark.parametrize('mode', [jax.default_prng_impl('rbg'), jax.enable_x64(True)], ids=['rbg', 'x64'])
def test_settings_of_jax_do_not_matter(mode):
  """rbg's draws under vmap depend on the other rows; 64-bit numbers would not fit the loop."""
  models, tokens = INPUTS['toy']
  with mode:
    got = loops.afresh(models[0], sd.ModelDrafter(models[1]), tokens, gamma=GAMMA, max_decode_len=LENGTH)
  assert_rows(got, decode(models, tokens), np.arange(6))
  assert got.tokens.dtype == got.lengths.dtype == got.stats.accepted.dtype == np.int32


def test_few_lengths_of_inputs_compile():
  """Inputs are padded to one of few lengths, or to those that are asked for."""
  target, draft = INPUTS['toy'][0]
  of_length = lambda length, **options: sd.speculative_decode(
      target, sd.ModelDrafter(draft), np.full((2, length), 2), gamma=2, max_decode_len=3, **options)
  of_length(1)
  compiled = decode_loop._cache_size()
  for length in (2, 7, 15, 16):
    of_length(length)
  assert decode_loop._cache_size() == compiled
  of_length(17)
  of_length(32)
  assert decode_loop._cache_size() == compiled + 1
  of_length(5, buckets=())
  of_length(6, buckets=())
  of_length(7, buckets=(9, 12))
  of_length(9, buckets=(9, 12))
  assert decode_loop._cache_size() == compiled + 4


def test_default_ids_are_the_places():
  models, tokens = INPUTS['toy']
  assert_rows(decode(models, tokens, ids=np.arange(6)), decode(models, tokens), np.arange(6))


@pytest.mark.long
def test_second_call_of_the_same_shapes_compiles_nothing():
  models, tokens = INPUTS['toy']
  decode(models, tokens)
  compiled = decode_loop._cache_size()
  decode(models, tokens[::-1].copy(), seed=5, ids=np.arange(6) + 7)
  decode(models, tokens.astype(np.int64), seed=np.int64(6), ids=list(range(6)))
  decode((toy.random_toy(5), toy.random_toy(6)), tokens, sampling=sd.Sampling(top_k=0.0), lenience=1.0)
  decode(models, tokens, sampling=sd.Sampling(temperature=0.3))
  assert decode_loop._cache_size() == compiled
  decode(models, tokens, sampling=sd.Sampling(top_p=0.4))
  decode(models, tokens, lenience=0.5)
  assert decode_loop._cache_size() == compiled + 2
  decode(models, tokens, sampling=sd.Sampling(top_p=0.9, temperature=2.0))
  decode(models, tokens, lenience=0.2)
  assert decode_loop._cache_size() == compiled + 2
  decode(models, tokens, sampling=sd.Sampling(top_k=2))
  assert decode_loop._cache_size() == compiled + 3
