"""The fit_ngram run, and the drafters' blocks in place of a model's."""

import json

import numpy as np
import pytest
import tiny_lm

import specdec_jax as sd
import specdec_jax.cli.configurables
from specdec_jax.cli import gin_config
from specdec_jax.data.examples import Example, read_examples
from specdec_jax.errors import ConfigError
from specdec_jax.runs.fit_ngram import fit_ngram


def test_the_references_of_a_file_are_counted(files, vocabulary, tmp_path):
  examples = read_examples(files / 'inputs.jsonl', reference_field='german')
  report = fit_ngram(str(tmp_path), vocabulary, examples, successors=1)
  table = sd.load_ngram(tmp_path / 'ngram')
  wanted = np.bincount(
      [t for e in examples for t in [*vocabulary.encode(e.reference), 1]], minlength=vocabulary.size)
  np.testing.assert_array_equal(table.unigram, wanted)
  assert table.digest == vocabulary.digest and table.successors.shape == (vocabulary.size, 1)
  assert report['tokens'] == wanted.sum() and 0 < report['pairs_kept'] < 1
  assert json.loads((tmp_path / 'report.json').read_text()) == report
  texts = fit_ngram(str(tmp_path), vocabulary, examples, field='text', order=1)
  assert texts['drafter'].startswith('unigram') and texts['tokens'] != wanted.sum()


def test_prompts_first_tokens_stand_behind_what_the_vocabulary_puts_there(tmp_path):
  vocabulary = tiny_lm.vocabulary(tmp_path)
  texts = ['the file of new media', 'the file today']
  fit_ngram(str(tmp_path / 'run'), vocabulary, [Example(i, t) for i, t in enumerate(texts)], field='text')
  table = sd.load_ngram(tmp_path / 'run' / 'ngram')
  start, first = vocabulary.start[-1], vocabulary.encode('the')[0]
  assert vocabulary.start and table.contexts[start] == len(texts)
  assert (table.successors[start, 0], table.counts[start, 0]) == (first, len(texts))


@pytest.mark.parametrize('options, words', [
    ({}, "Example 7 has no reference; .*fit_ngram.field = 'text'"),
    ({'field': 'target'}, "fit_ngram.field is 'target'; it must be 'reference' or 'text'")])
def test_bad_settings(vocabulary, tmp_path, options, words):
  with pytest.raises(ValueError, match=words):
    fit_ngram(str(tmp_path), vocabulary, [Example(7, 'new media')], **options)


@pytest.mark.parametrize('run', ['decode', 'compare'])
@pytest.mark.parametrize('block, bindings', [
    ('bigram', ["DRAFT = 'x'"]), ('unigram', ["DRAFT = 'x'"]),
    ('lookup', ["LookupDrafter.source = 'input'"]), ('random', [])])
def test_blocks_stand_in_for_a_models(run, block, bindings):
  sampling = 'greedy' if run == 'decode' else 'greedy_and_temperature_1'
  files = [f'gin/runs/{run}.gin', f'gin/drafters/{block}.gin', 'gin/inputs/file.gin',
           f'gin/sampling/{sampling}.gin']
  common = ["TARGET = 't'", "OUTPUT_DIR = 'o'", "INPUTS = 'i.txt'"]
  gin_config.parse(files, [*common, *bindings])
  if bindings and 'DRAFT' in bindings[0]:
    with pytest.raises(ConfigError, match='DRAFT is required'):
      gin_config.parse(files, common)
