"""The model object: texts to tokens and back, logits, and clear refusals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
import tiny_lm

import specdec_jax as sd
from specdec_jax.errors import SettingError


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


def test_any_of_the_models_ends_ends_a_text(vocabulary):
  model = tiny.random_t5(0, eos_ids=(3, 1)).replace(vocabulary=vocabulary)
  a, b = vocabulary.encode('am')[-1], vocabulary.encode('See')[-1]
  assert 3 not in (a, b)
  for end in (1, 3):
    assert model.decode([[a, end, b]]) == [vocabulary.decode([a])]
  other = tiny.random_t5(0, eos_id=3).replace(vocabulary=vocabulary)
  assert other.decode([[a, 1, b]]) == [vocabulary.decode([a, 1, b])]  # the vocabulary's own end is none of this model's


def test_one_text_is_one_row(vocabulary):
  model = tiny.random_t5(0).replace(vocabulary=vocabulary)
  one = model.encode('am See')
  np.testing.assert_array_equal(one, model.encode(['am See']))
  assert model.decode(one[0]) == model.decode(one) == ['am See'] and model.decode([]) == []


def test_decoding_as_many_tokens_as_count(vocabulary):
  model = tiny.random_t5(0).replace(vocabulary=vocabulary)
  ids = model.encode(['am See', 'ein Haus'])
  assert model.decode(ids, lengths=[2, 0]) == [vocabulary.decode(ids[0, :2]), '']


def test_padding_is_the_models_own(vocabulary, tmp_path):
  model = tiny.random_t5(0, pad_id=19).replace(vocabulary=vocabulary)
  tokens = model.encode(['ein Haus', 'am'])
  assert (tokens[1, -5:] == 19).all() and (tokens != 0).all()
  assert model.decode(np.where(tokens == 1, 19, tokens)) == ['ein Haus', 'am']  # padding is no text
  shorter = tokens[1:, :np.argmax(tokens[1] == 1) + 1]
  for row in (tokens[1:], np.pad(shorter, ((0, 0), (0, 3)), constant_values=19)):
    np.testing.assert_allclose(model.logits(row, [[0, 5]]), model.logits(shorter, [[0, 5]]), atol=2e-4)
  zeros = np.pad(shorter, ((0, 0), (0, 3)))
  difference = np.asarray(model.logits(zeros, [[0, 5]])) - model.logits(shorter, [[0, 5]])
  assert np.abs(difference).max() > 1e-2  # 0 is a token


def test_prompts_and_their_lengths(tmp_path):
  words = tiny_lm.vocabulary(tmp_path)
  model = tiny_lm.random_lm(0, words)
  tokens, lengths = model.prompts(['the file', 'a'])
  assert tokens.dtype == lengths.dtype == np.int32
  for row, length, text in zip(tokens, lengths, ['the file', 'a']):
    assert row[:length].tolist() == words.model_input(text) and not row[length:].any()
  np.testing.assert_array_equal(model.prompts('a')[0], [words.model_input('a')])


@pytest.mark.parametrize('texts, message', [
    ([], 'texts is empty'), (None, 'texts is None; it must be a tuple or list'), (5, 'texts is 5'),
    (b'am', "texts is a bytes; it must be a tuple or list"), (['am', 3], r'texts\[1\] is 3; it must be a text'),
    ([['am']], r"texts\[0\] is \['am'\]; it must be a text")])
def test_what_is_no_text_is_refused(vocabulary, texts, message):
  with pytest.raises(SettingError, match=message):
    tiny.random_t5(0).replace(vocabulary=vocabulary).encode(texts)


@pytest.mark.parametrize('tokens', [[[1.5]], [['am']], np.zeros((1, 2, 2), int), [[1, 2], [[3]]]])
def test_what_are_no_tokens_is_refused(vocabulary, tokens):
  with pytest.raises(SettingError, match=r'tokens\[\d\] must be integers'):
    tiny.random_t5(0).replace(vocabulary=vocabulary).decode(tokens)


def test_an_end_that_the_vocabulary_does_not_have_is_refused(vocabulary):
  with pytest.raises(SettingError, match=r"The model.eos_id is 22, but only ids 0 to \d+ are decoded"):
    tiny.random_t5(0, num_pieces=0, eos_id=22).replace(vocabulary=vocabulary)


def test_a_model_is_shown_in_one_short_line(vocabulary):
  model = tiny.random_t5(0)
  assert repr(model) == ('Model(T5 (1 encoder and 1 decoder layers of width 16, float32), '
                         f'{sum(x.size for x in jax.tree.leaves(model.params)):,} parameters, no vocabulary)')
  assert f'a vocabulary of {vocabulary.size} pieces' in repr(model.replace(vocabulary=vocabulary))
  assert len(repr(sd.ModelDrafter(model))) < 200
  seen = []
  jax.jit(lambda m: seen.append(repr(m)) or 0)(model)
  jax.eval_shape(lambda m: seen.append(repr(m)) or jnp.zeros(()), model)
  assert seen == [repr(model)] * 2


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
    (['a text'], [[0]], r'encoder_tokens must be integers .*\. Model\.encode makes them of texts\.$'),
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
