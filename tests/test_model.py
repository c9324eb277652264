"""The model object: texts to tokens and back, logits, and clear refusals."""

import jax
import numpy as np
import pytest
import tiny


@pytest.fixture(scope='module')
def vocabulary(tmp_path_factory):
  return tiny.vocabulary(tmp_path_factory.mktemp('vocabulary'))


def test_texts_to_tokens_and_back(vocabulary):
  model = tiny.random_t5(0).replace(vocabulary=vocabulary)
  tokens = model.encode(['ein Haus', 'ein Haus am See'])
  assert tokens.dtype == np.int32 and tokens.shape[0] == 2
  assert (tokens == vocabulary.eos_id).sum() == 2
  end = tokens[0].tolist().index(vocabulary.eos_id)
  assert (tokens[0, end + 1:] == 0).all() and (tokens[1] != 0).all()
  assert model.decode(tokens) == ['ein Haus', 'ein Haus am See']
  np.testing.assert_array_equal(model.encode(['ein Haus'])[0], tokens[0, :end + 1])


def test_what_stands_behind_eos_is_left_out(vocabulary):
  model = tiny.random_t5(0).replace(vocabulary=vocabulary)
  ids = model.encode(['am See'])[0].tolist()
  assert model.decode(np.array([ids + ids])) == ['am See']


def test_ids_that_may_be_decoded(vocabulary):
  assert tiny.random_t5(0).num_tokens == tiny.PIECES
  assert tiny.random_t5(0, num_pieces=0).num_tokens == tiny.ROWS
  model = tiny.random_t5(0, num_pieces=0, eos_id=3).replace(vocabulary=vocabulary)
  assert (model.num_tokens, model.eos_id) == (vocabulary.size, 3)  # the configuration's, as everywhere
  assert tiny.random_t5(0).replace(vocabulary=vocabulary).num_tokens == tiny.PIECES
  assert tiny.random_t5(0, eos_id=3).eos_id == 3


def test_without_a_vocabulary_texts_are_refused():
  model = tiny.random_t5(0)
  for call in (lambda: model.encode(['a']), lambda: model.decode([[3]])):
    with pytest.raises(ValueError, match='no vocabulary; import it with --vocabulary=FILE'):
      call()


@pytest.mark.parametrize('encoder, decoder, message', [
    ([[1, 2]], [[0], [1]], 'encoder_tokens has 1 rows, decoder_tokens 2; they must agree'),
    ([[1, 24]], [[0]], r'encoder_tokens\[0, 1\] is 24, but the model has ids 0 to 23'),
    ([[1, 2]], [[0, -1]], r'decoder_tokens\[0, 1\] is -1'),
    ([[1.5]], [[0]], 'encoder_tokens must be integers'),
    ([[1]], np.zeros((1, 0), int), 'decoder_tokens is empty'),
])
def test_bad_tokens_are_named(encoder, decoder, message):
  with pytest.raises(ValueError, match=message):
    tiny.random_t5(0).logits(encoder, decoder)


def test_passes_through_jit_as_an_argument():
  model = tiny.random_t5(0)
  doubled = jax.jit(lambda m: jax.tree.map(lambda x: 2 * x, m))(model)
  assert doubled.config == model.config
  np.testing.assert_array_equal(doubled.params['encoder']['encoder_norm']['scale'],
                                2 * model.params['encoder']['encoder_norm']['scale'])


def test_given_is_the_configs_start_token():
  given, lengths = tiny.random_t5(0, decoder_start_id=7).decoder_prefix(np.zeros((3, 5), np.int32))
  np.testing.assert_array_equal(given, [[7]] * 3)
  np.testing.assert_array_equal(lengths, [1] * 3)
