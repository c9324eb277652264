"""Fitting a vocabulary: ids, sizes, kinds, and the run that does it."""

import json

import pytest
from tiny_pair import SENTENCES

from specdec_jax.data.examples import Example
from specdec_jax.data.tokenizers_fitting import fit_tokenizer
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.runs.fit_vocabulary import fit_vocabulary


@pytest.mark.parametrize('kind', ['wordpiece', 'bpe'])
def test_padding_is_0_and_texts_begin_behind_their_end(kind):
  made = fit_tokenizer(SENTENCES, 280, kind)
  eos = made.token_to_id('[SEP]' if kind == 'wordpiece' else '<|endoftext|>')
  assert eos == 1 and made.token_to_id('[PAD]' if kind == 'wordpiece' else '<pad>') == 0
  assert made.encode('the file').ids[0] == eos and eos not in made.encode('the file').ids[1:]
  assert made.get_vocab_size() <= 280


def test_words_that_come_often_are_one_piece():
  for kind in ('wordpiece', 'bpe'):
    made = fit_tokenizer(SENTENCES, 400, kind)
    assert len(made.encode('the window', add_special_tokens=False).ids) == 2


def test_lowercase():
  made = fit_tokenizer(['Über Haus haus'], 60, lowercase=True)
  assert made.encode('HAUS').ids == made.encode('haus').ids
  assert fit_tokenizer(['Haus haus'], 60).encode('Haus').ids != made.encode('haus').ids


@pytest.mark.parametrize('options, message', [
    ({'kind': 'unigram'}, "kind is 'unigram'; use 'wordpiece' or 'bpe'"),
    ({'kind': 'bpe', 'lowercase': True}, 'lowercase would be ignored'),
    ({'kind': 'bpe', 'size': 100}, r'size is 100; the characters and special pieces alone are 2\d\d'),
])
def test_bad_settings(options, message):
  with pytest.raises(ValueError, match=message):
    fit_tokenizer(SENTENCES, **options)


def test_the_run_writes_what_a_model_reads(tmp_path):
  examples = [Example(i, t, 'x ' + t) for i, t in enumerate(SENTENCES)]
  report = fit_vocabulary(str(tmp_path), examples, kind='bpe', size=300)
  v = TokenizersVocabulary(tmp_path / 'tokenizer.json')
  assert v.size == report['pieces'] == 300
  assert report['tokens'] == sum(len(v.encode(t)) for t in SENTENCES)
  assert json.loads((tmp_path / 'report.json').read_text()) == report
  assert fit_vocabulary(str(tmp_path), examples, field='reference', size=60)['characters'] == (
      report['characters'] + 2 * len(examples))
  with pytest.raises(ValueError, match='Example 0 has no reference'):
    fit_vocabulary(str(tmp_path), [Example(0, 'a')], field='reference')
