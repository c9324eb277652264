"""Every run that takes a decoder-only model, with prompts of unequal lengths in one batch: each text is that of its
prompt alone."""

import json

import numpy as np
import pytest
import tiny_lm

import specdec_jax as sd
from specdec_jax.analysis import cost as cost_lib
from specdec_jax.analysis.cost import Cost
from specdec_jax.data.examples import Example
from specdec_jax.jobs import claims
from specdec_jax.measure import timing
from specdec_jax.reports import trace as trace_lib
from specdec_jax.runs import alphas as alphas_lib, check as check_lib, compare as compare_lib, figures as figures_lib
from specdec_jax.runs.complete import complete
from specdec_jax.runs.decode import decode

GREEDY = sd.Sampling(temperature=0.0)
TEXTS = ['today', 'the file of new media', 'window size', 'the file cannot be opened because']
SHAPE = dict(max_decode_len=8, max_input_len=16, buckets=(16,))


@pytest.fixture(scope='module')
def pair(tmp_path_factory):
  vocabulary = tiny_lm.vocabulary(tmp_path_factory.mktemp('vocabulary'))
  return tiny_lm.random_lm(0, vocabulary), sd.ModelDrafter(tiny_lm.random_lm(1, vocabulary))


@pytest.fixture(scope='module')
def examples():
  return [Example(i, text) for i, text in enumerate(TEXTS)]


@pytest.fixture(scope='module')
def alone(pair, examples):
  """The target's greedy tokens of each prompt, decoded by itself without any padding."""
  found = []
  for example in examples:
    tokens, lengths = pair[0].prompts([example.text])
    r = sd.autoregressive_decode(pair[0], tokens, lengths=lengths, sampling=GREEDY, max_decode_len=8, buckets=())
    found.append(r.tokens[0, :r.lengths[0]].tolist())
  assert len({tuple(text) for text in found}) > 1
  return found


@pytest.fixture
def decoded(monkeypatch):
  """{input: its tokens} of every method that is timed."""
  seen = []
  call = timing._timed

  def record(method, target, batch):
    elapsed, result = call(method, target, batch)
    seen.append({int(i): result.tokens[row, :result.lengths[row]].tolist() for row, i in enumerate(batch.indices)})
    return elapsed, result

  monkeypatch.setattr(timing, '_timed', record)
  return seen


def costs(*unused, **also):
  return {3: Cost(gamma=3, draft_step=0.001, target_step=0.01, verify_pass=0.012, target_encoder=0.02,
                  draft_encoder=0.002)}


def test_decode(pair, examples, alone, tmp_path):
  with claims.claimed(str(tmp_path), {}):
    decode(str(tmp_path), pair[0], examples, pair[1], 3, sampling=GREEDY, batch_size=4, **SHAPE)
  lines = [json.loads(line) for line in (tmp_path / 'predictions.jsonl').read_text().splitlines()]
  assert [line['tokens'] for line in lines] == alone


def test_complete(pair, examples, alone, tmp_path):
  for example, text in zip(examples, alone):
    assert complete(str(tmp_path), pair[0], example.text, pair[1], 3, sampling=GREEDY, **SHAPE)['tokens'] == text


def test_compare(pair, examples, alone, decoded, tmp_path, monkeypatch):
  monkeypatch.setattr(cost_lib, 'measure', costs)
  compare_lib.compare(str(tmp_path), pair[0], examples, pair[1], gammas=(3,), samplings=(GREEDY,), batch_size=4,
                      **SHAPE)
  assert decoded and all(texts == dict(enumerate(alone)) for texts in decoded)


def test_check(pair, examples, alone, decoded, tmp_path):
  result = check_lib.check(str(tmp_path), pair[0], pair[0], examples, gamma=3, batch_size=4, **SHAPE)
  assert decoded and all(texts == dict(enumerate(alone)) for texts in decoded)
  assert {row['outputs']['relation'] for row in result['drafts']} == {'identical'}


def test_alphas(pair, examples, alone, tmp_path, monkeypatch):
  seen = {}
  over = alphas_lib.over_texts

  def record(target, drafter, batches, results, *rest):
    for batch, result in zip(batches, results):
      seen.update({int(i): result.tokens[row, :result.lengths[row]].tolist() for row, i in enumerate(batch.indices)})
    return over(target, drafter, batches, results, *rest)

  monkeypatch.setattr(alphas_lib, 'over_texts', record)
  found = alphas_lib.alphas(str(tmp_path), pair[0], examples, {'itself': pair[0]}, samplings=(GREEDY,), batch_size=4,
                            **SHAPE)
  assert seen == dict(enumerate(alone))
  assert found['alphas'][0]['alpha'] == pytest.approx(1)


@pytest.mark.long
def test_figures(pair, examples, alone, tmp_path, monkeypatch):
  drawn = {}
  picture = trace_lib.picture

  def record(target, result, row, title, tree):
    drawn[title] = [t for i in trace_lib.iterations(result, row) for t in i.emitted]
    return picture(target, result, row, title, tree)

  monkeypatch.setattr(figures_lib.cost_lib, 'measure', costs)
  monkeypatch.setattr(figures_lib.trace_lib, 'picture', record)
  monkeypatch.setattr(figures_lib.figures_lib, 'save', lambda *unused: None)
  figures_lib.figures(str(tmp_path), pair[0], examples, pair[1], gammas=(3,), shown_examples=4, batch_size=4,
                      max_decode_len=8, max_input_len=16)
  assert drawn == dict(zip(TEXTS, alone))


def test_the_lengths_matter(pair, examples, alone):
  """Without them the padding would be read as part of the prompt, and other texts come out."""
  tokens, lengths = pair[0].prompts(TEXTS)
  assert len(set(lengths.tolist())) > 1
  wrong = sd.autoregressive_decode(pair[0], tokens, sampling=GREEDY, max_decode_len=8, buckets=())
  assert [row[:n].tolist() for row, n in zip(np.asarray(wrong.tokens), wrong.lengths)] != alone
