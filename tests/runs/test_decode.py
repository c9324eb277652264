import itertools
import json

import numpy as np
import pytest

from specdec_jax.data.examples import Example, read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import RunFailed
from specdec_jax.jobs import batching, output
from specdec_jax.measure.methods import Method
from specdec_jax.runs import decode as decode_lib
from specdec_jax.sampling import Sampling

LENGTH = 12


@pytest.fixture
def examples(files):
  return read_examples(files / 'inputs.jsonl', reference_field='german')


@pytest.fixture
def run(target, draft, examples, tmp_path):
  """Decodes into tmp_path/NAME; returns the lines of its predictions."""
  def call(name, examples=examples, **changes):
    directory = str(tmp_path / name)
    settings = {'drafter': ModelDrafter(draft), 'gamma': 2, 'sampling': Sampling(temperature=1.0),
                'max_decode_len': LENGTH, 'max_input_len': 64, 'batch_size': 4, **changes}
    output.claim(directory, {k: repr(v) for k, v in changes.items()})
    decode_lib.decode(directory, target, examples, **settings)
    return lines(directory)

  return call


def lines(directory):
  with open(f'{directory}/predictions.jsonl', encoding='utf-8') as f:
    return [json.loads(line) for line in f]


def test_lines_hold_what_the_decoder_returned(run, target, examples, tmp_path):
  found = run('out')
  assert [line['id'] for line in found] == [e.id for e in examples]
  tokens = target.encode([examples[5].text])
  line = found[5]
  assert line['input'] == examples[5].text and line['reference'] == examples[5].reference
  assert line['text'] == target.decode([line['tokens']])[0]
  fed = np.array([[0] + line['tokens'][:-1]], np.int32)
  logits = np.asarray(target.logits(tokens, fed), np.float64)[0, :, :target.num_tokens]
  log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  assert line['scores'] == pytest.approx(
      log_probs[np.arange(len(line['tokens'])), line['tokens']].sum(), abs=1e-3)
  for line in found:
    counts = line['statistics']
    assert counts['emitted'] == len(line['tokens'])
    assert counts['accepted'] == sum(counts['accepted_by_position']) <= counts['drafted']
    assert counts['drafted'] == sum(counts['drafted_by_position'])
    assert line['status'] == ('EOS' if line['tokens'][-1] == 1 else 'LENGTH')
  summary = json.loads((tmp_path / 'out' / 'summary.json').read_text())
  assert summary['tokens'] == sum(len(line['tokens']) for line in found)
  assert summary['tokens_per_call'] == pytest.approx(
      summary['tokens'] / sum(line['statistics']['target_calls'] for line in found))
  assert sum(summary['status'].values()) == summary['examples'] == len(found)


def test_results_follow_the_id_not_the_batch(run, examples):
  drawn = lambda found: {line['id']: (line['tokens'], line['status'], line['statistics'])
                         for line in found}
  whole = drawn(run('whole'))
  assert drawn(run('single', batch_size=1)) == whole
  backwards = run('backwards', examples=examples[::-1][:7])
  assert [line['id'] for line in backwards] == [e.id for e in examples[::-1][:7]]
  assert drawn(backwards) == {e.id: whole[e.id] for e in examples[::-1][:7]}
  assert drawn(run('other', batch_size=1, seed=1)) != whole


def test_greedy_speculative_texts_are_the_targets_own(run):
  greedy = Sampling(temperature=0.0)
  alone = run('alone', drafter=None, gamma=None, sampling=greedy)
  fast = run('fast', sampling=greedy)
  assert [line['tokens'] for line in alone] == [line['tokens'] for line in fast]
  assert all(line['statistics']['drafted'] == 0 for line in alone)


def test_a_run_that_was_stopped_goes_on(run, monkeypatch, tmp_path):
  whole = run('whole')
  decoded = []

  def stops(self, target, batch, _call=Method.__call__):
    if len(decoded) == 2:
      raise KeyboardInterrupt
    decoded.append(batch.indices.tolist())
    return _call(self, target, batch)

  monkeypatch.setattr(Method, '__call__', stops)
  with pytest.raises(KeyboardInterrupt):
    run('stopped')
  assert not (tmp_path / 'stopped' / 'predictions.jsonl').exists()
  before, decoded[:] = list(itertools.chain(*decoded)), []
  assert run('stopped') == whole
  assert not set(before) & set(itertools.chain(*decoded)), 'nothing is decoded twice'
  decoded[:] = []
  assert run('stopped') == whole and not decoded


def test_a_batch_that_fails_loses_nothing_else(run, monkeypatch, tmp_path, capsys):
  whole = run('whole', batch_size=1)
  failing = {'a4'}
  call = Method.__call__

  def fails(self, target, batch):
    if failing and batching.key_id('a4') in batch.ids:
      raise RuntimeError('out of something')
    return call(self, target, batch)

  monkeypatch.setattr(Method, '__call__', fails)
  with pytest.raises(RunFailed, match='1 of 12 examples failed'):
    run('failing', batch_size=1)
  found = lines(tmp_path / 'failing')
  assert found[4] == {'id': 'a4', 'status': 'FAILED', 'error': 'out of something'}
  assert found[:4] + found[5:] == whole[:4] + whole[5:]
  assert "['a4'] failed: out of something" in capsys.readouterr().err
  failing.clear()
  assert run('failing', batch_size=1) == whole


def test_a_fault_of_every_batch_ends_the_run_at_once(run, monkeypatch):
  calls = []

  def fails(self, target, batch):
    calls.append(batch)
    raise RuntimeError('RESOURCE_EXHAUSTED')

  monkeypatch.setattr(Method, '__call__', fails)
  with pytest.raises(RuntimeError, match='RESOURCE_EXHAUSTED'):
    run('failing')
  assert len(calls) == 1


def test_settings_that_would_be_ignored_are_refused(run):
  with pytest.raises(ValueError, match='gamma = 2 would be ignored'):
    run('out', drafter=None)
  with pytest.raises(ValueError, match='lenience = 0.5 would be ignored'):
    run('out', drafter=None, gamma=None, lenience=0.5)
  with pytest.raises(ValueError, match='gamma is 0'):
    run('out', gamma=0)


def test_changed_inputs_are_noticed(run, examples):
  run('out')
  with pytest.raises(ValueError, match='inputs have changed'):
    run('out', examples=[*examples[:-1], Example('a11', 'something else')])
