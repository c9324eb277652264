"""Vocabularies of the tokenizers library: every kind of file, starts and ends, prompts of several lengths."""

import json

import numpy as np
import pytest
import tiny_lm
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary

TEXTS = ['the file cannot be opened', 'today', 'a new window,  für 3 media!']


@pytest.mark.parametrize('kind', ['bpe', 'wordpiece'])
def test_texts_come_back(tmp_path, kind):
  v = tiny_lm.vocabulary(tmp_path, kind)
  known = TEXTS[:2] if kind == 'wordpiece' else TEXTS  # bytes keep everything
  for text in known:
    ids = v.encode(text)
    assert v.decode(ids) == text and v.model_input(text) == [*v.start, *ids]
    assert 0 not in ids and v.eos_id not in ids and max(ids) < v.size
  assert v.decode([*v.encode('today'), v.size + 3]) == 'today'  # a padding row of the logits


def word_level(tmp_path, words, template=None):
  """A tokenizer.json that splits at spaces."""
  made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token='?'))
  made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
  if template:
    named = [w for w in words if w.startswith(('[', '<'))]
    made.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(w, words.index(w)) for w in named])
  path = tmp_path / 'tokenizer.json'
  path.write_text(made.to_str())
  return path


@pytest.mark.parametrize('words, given, eos', [
    (['?', '</s>', '<|endoftext|>'], None, 2),  # GPT-2's name first
    (['?', '</s>', '[SEP]'], None, 1),
    (['?', 'a', '[SEP]'], None, 2),
    (['?', 'a', '<eos>'], 1, 1),  # what the model says counts
    (['?', 'a', '<eos>'], 0, 0),
])
def test_which_token_ends_a_text(tmp_path, words, given, eos):
  assert TokenizersVocabulary(word_level(tmp_path, words), given).eos_id == eos


def test_no_end_of_text_is_asked_for(tmp_path):
  with pytest.raises(ValueError, match='for the end of a text; give eos_id'):
    TokenizersVocabulary(word_level(tmp_path, ['?', 'a']))


@pytest.mark.parametrize('template, start', [
    (None, ()), ('<eos> $A', (2,)), ('[CLS] $A <eos>', (3,)), ('[CLS] <eos> $A', (3, 2)), ('$A <eos>', ())])
def test_a_prompt_starts_as_the_template_says_and_ends_open(tmp_path, template, start):
  v = TokenizersVocabulary(word_level(tmp_path, ['?', 'a', '<eos>', '[CLS]'], template))
  assert v.start == start and v.encode('a a') == [1, 1]
  assert v.model_input('a ?') == [*start, 1, 0] and v.context_id == (start[-1] if start else 2)


def test_vocab_and_merges_are_gpt2s_byte_level_bpe(tmp_path):
  pieces = ['a', 'b', 'ab', 'Ġ', 'Ġab', '<|endoftext|>']
  (tmp_path / 'vocab.json').write_text(json.dumps({p: i for i, p in enumerate(pieces)}))
  with pytest.raises(FileNotFoundError, match=r"no merges.txt \(which vocab.json needs beside it\) at"):
    TokenizersVocabulary(tmp_path / 'vocab.json')
  (tmp_path / 'merges.txt').write_text('#version: 0.2\na b\nĠ ab\n')
  v = TokenizersVocabulary(tmp_path / 'vocab.json')
  assert v.encode('abab ab') == [2, 2, 4] and v.decode([2, 2, 4]) == 'abab ab'
  assert v.eos_id == 5 and v.start == () and v.encode('a<|endoftext|>') == [0, 5]


def test_missing_and_damaged_files(tmp_path):
  with pytest.raises(FileNotFoundError, match='no tokenizer file at'):
    TokenizersVocabulary(tmp_path / 'tokenizer.json')
  (tmp_path / 'tokenizer.json').write_text('{"model": 3')
  with pytest.raises(ValueError, match='not a file of the tokenizers library'):
    TokenizersVocabulary(tmp_path / 'tokenizer.json')


def test_a_model_directory_keeps_it(tmp_path):
  v = tiny_lm.vocabulary(tmp_path)
  model = tiny_lm.random_lm(0, v)
  save_model(model, tmp_path / 'model', storage='int8')
  found = load_model(tmp_path / 'model')
  assert found.vocabulary == v and found.config == model.config and found.eos_id == v.eos_id
  assert found.num_tokens == v.size < found.config.vocab_size
  tokens, lengths = found.prompts(TEXTS)
  np.testing.assert_array_equal(tokens, found.encode(TEXTS))
  for row, n, text in zip(tokens, lengths, TEXTS):
    assert found.decode([row[1:n]]) == [text] and row[0] == v.eos_id and not row[n:].any()
  assert v != tiny_lm.vocabulary(tmp_path, size=290) and len({v, found.vocabulary}) == 1
