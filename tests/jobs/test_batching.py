import zlib

import numpy as np
import pytest
import tiny_lm

from specdec_jax.data.examples import Example
from specdec_jax.jobs import batching, inputs as inputs_lib
from specdec_jax.jobs.inputs import InputOptions

LONG = 'window is not valid here today ' * 4
TEXTS = ['new media', 'the file cannot be opened', 'today', LONG, LONG, LONG]


def by_ids(*tokens):
  return Example(7, None, tokens=tokens)


@pytest.fixture
def inputs(target):
  return InputOptions(max_input_len=200).encode(target, [Example(f'e{i}', t) for i, t in enumerate(TEXTS)])


def test_every_input_once_in_full_batches(inputs):
  made = InputOptions(batch_size=2, max_input_len=200).batches(inputs)
  assert sorted(i for b in made for i in b.indices) == list(range(len(TEXTS)))
  for batch in made:
    assert batch.tokens.shape[0] == 2 and len(batch.ids) == 2
    for row, index in enumerate(batch.indices):
      ids = inputs.rows[index]
      np.testing.assert_array_equal(batch.tokens[row, :len(ids)], ids)
      assert not batch.tokens[row, len(ids):].any()
    # Rows that only fill up repeat a real one, so that they end with it.
    np.testing.assert_array_equal(batch.tokens[-1], batch.tokens[len(batch.indices) - 1])
  assert len({b.tokens.shape for b in made}) == 2
  lengths = [b.tokens.shape[1] for b in made]
  assert lengths == sorted(lengths, reverse=True)


def test_bucket_lengths():
  assert batching.bucket_lengths(100) == [16, 32, 64, 100]
  assert batching.bucket_lengths(64) == [16, 32, 64]
  assert batching.bucket_lengths(10) == [10]
  assert batching.bucket_lengths(40, (24, 8, 99)) == [8, 24, 40]


def test_long_inputs_are_refused_by_id_or_cut_and_counted(target):
  examples = [Example(7, 'new media'), Example('long', TEXTS[-1])]
  length = len(target.encode([TEXTS[-1]])[0])
  with pytest.raises(ValueError, match=rf'1 of 2 inputs .*max_input_len = 20.*: long \({length}\)'):
    InputOptions(max_input_len=20).encode(target, examples)
  cut = InputOptions(max_input_len=20, long_inputs='cut').encode(target, examples)
  assert cut.cut == 1 and len(cut.rows[1]) == 20 and cut.rows[1][-1] == target.eos_id
  assert cut.rows[1][:19] == target.encode([TEXTS[-1]])[0, :19].tolist()
  assert InputOptions(max_input_len=length).encode(target, examples).cut == 0


@pytest.mark.parametrize('call, words', [
    (lambda t: InputOptions().encode(t, []), 'no examples'),
    (lambda t: InputOptions().encode(t, [by_ids(5, t.num_tokens, 1)]), 'Example 7 has the token id .* has ids'),
    (lambda t: InputOptions().encode(t, [by_ids(5, 6)]), r'end in 6; an encoder.s input ends in EOS \(1\): add it'),
    (lambda t: InputOptions().encode(t, [by_ids(5, 0, 1)]), 'the token id 0, which is padding; leave it out'),
    (lambda t: InputOptions(prefix='a: ').encode(t, [by_ids(5, 1)]), 'leave prefix out'),
    (lambda t: InputOptions(max_input_len=2).encode(t, [by_ids(5, 6, 1)]), 'longer than max_input_len'),
    (lambda t: InputOptions(max_input_len=1), 'max_input_len is 1; it must be a whole number of at least 2'),
    (lambda t: InputOptions(long_inputs='trim'), "long_inputs is 'trim'; it must be 'refuse' or 'cut'"),
    (lambda t: InputOptions(batch_size=0), 'batch_size is 0'),
    (lambda t: InputOptions(buckets=(0, 8)), r'buckets\[0\] is 0'),
    (lambda t: InputOptions(prefix=4), 'prefix is 4; it must be a text'),
])
def test_bad_settings(target, call, words):
  with pytest.raises(ValueError, match=words):
    call(target)


def test_a_prefix_stands_before_every_text(target):
  plain = InputOptions().encode(target, [Example(0, 'the new media')])
  assert InputOptions(prefix='the new ').encode(target, [Example(0, 'media')]).rows == plain.rows


def test_key_ids():
  assert batching.key_id(12) == batching.key_id('12') == 12
  assert batching.key_id('a1') != batching.key_id('a2')
  assert 0 <= batching.key_id('a1') < 2**32 and 0 <= batching.key_id(2**40) < 2**32


def test_ids_of_any_number_of_digits():
  assert batching.key_id('007') == 7 == batching.key_id('0' * 5000 + '7')
  assert batching.key_id('') == 0 and batching.key_id('0') == batching.key_id('000') == 0
  for digits in (11, 5000):
    assert batching.key_id('7' * digits) == zlib.crc32(b'7' * digits)


def test_many_texts_are_tokenized_in_parts_as_each_alone(target, monkeypatch, capsys):
  monkeypatch.setattr(inputs_lib, 'TEXTS_AT_ONCE', 4)
  monkeypatch.setattr(inputs_lib, 'MANY', 5)
  inputs = InputOptions(max_input_len=200).encode(target, [Example(i, t) for i, t in enumerate(TEXTS)])
  assert inputs.rows == [target.encode([t])[0].tolist() for t in TEXTS]
  assert 'tokenizing' in capsys.readouterr().err


def test_prompts_keep_their_end_and_their_lengths(tmp_path):
  model = tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path))
  texts = ['new media', 'the file cannot be opened because of the window', 'today']
  examples = [Example(i, t) for i, t in enumerate(texts)]
  rows = [[1, *model.vocabulary.encode(t)] for t in texts]
  with pytest.raises(ValueError, match=r'1 of 3 inputs are longer than max_input_len = 8 tokens: 1 \(\d+\)'):
    InputOptions(max_input_len=8).encode(model, examples)
  inputs = InputOptions(max_input_len=8, long_inputs='cut').encode(model, examples)
  assert inputs.cut == 1 and inputs.rows == [rows[0], rows[1][-8:], rows[2]]
  inputs.rows[2][-1] = 0  # ends in id 0
  batch, = InputOptions(batch_size=4, max_input_len=8, buckets=(8,)).batches(inputs)
  assert batch.lengths.dtype == np.int32
  for place, index in enumerate([1, 0, 2, 2]):
    row = inputs.rows[index]
    assert batch.lengths[place] == len(row) and batch.tokens[place, :len(row)].tolist() == row


def test_an_empty_prompt_is_named(tmp_path):
  model = tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path))
  model.vocabulary.start = ()
  with pytest.raises(ValueError, match='Example e is an empty prompt'):
    InputOptions().encode(model, [Example('e', '')])
