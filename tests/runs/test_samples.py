"""Several samples of an input, and target prefixes, in a decode job."""

import dataclasses
import json

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.data.examples import Example
from specdec_jax.decoding import running
from specdec_jax.errors import InputError, RunFailed, SettingError
from specdec_jax.jobs import choosing, stream
from specdec_jax.jobs.batching import key_id
from specdec_jax.jobs.claims import claimed
from specdec_jax.runs.decode import decode
from specdec_jax.sampling import Sampling

TEXTS = ['the file', 'cannot be opened', 'because window', 'of new media', 'size']
EXAMPLES = [Example(f'a{i}', text) for i, text in enumerate(TEXTS)]
PREFIXED = [dataclasses.replace(e, target_prefix=prefix)
            for e, prefix in zip(EXAMPLES, ('the new', None, (5, 6, 7), 'is not', None))]
SAMPLES = 3


@pytest.fixture
def run(target, draft, tmp_path):
  """Decodes into tmp_path/NAME; returns the lines of its predictions."""
  def call(name, examples=EXAMPLES, **changes):
    directory = str(tmp_path / name)
    settings = {'drafter': sd.ModelDrafter(draft), 'gamma': 2, 'sampling': Sampling(temperature=1.0),
                'max_decode_len': 8, 'max_input_len': 16, 'batch_size': 2, **changes}
    with claimed(directory, {}):
      decode(directory, target, examples, **settings)
    return [json.loads(line) for line in (tmp_path / name / 'predictions.jsonl').read_text().splitlines()]

  return call


@pytest.fixture
def encodes(monkeypatch):
  """The calls of the encoder."""
  calls, encode = [], running.Running.encode
  monkeypatch.setattr(running.Running, 'encode', lambda self, *args: (calls.append(args), encode(self, *args))[1])
  return calls


def test_a_line_holds_all_samples(run, target, draft, tmp_path, encodes, capsys):
  one, several = run('one'), run('several', num_samples=SAMPLES)
  assert sum(len(tags) for tags, *_ in encodes) == 2 * len(EXAMPLES), 'each input is encoded once'
  batch = sd.speculative_decode(
      target, draft, target.encode(TEXTS), gamma=2, sampling=Sampling(temperature=1.0), max_decode_len=8,
      num_samples=SAMPLES, ids=[key_id(e.id) for e in EXAMPLES])
  for i, (alone, line) in enumerate(zip(one, several)):
    assert 'text' not in line and [s['sample'] for s in line['samples']] == [0, 1, 2]
    first = line['samples'][0]
    assert {k: alone[k] for k in first if k not in ('sample', 'scores')} == {
        k: v for k, v in first.items() if k not in ('sample', 'scores')}
    for j, sample in enumerate(line['samples']):
      row = i * SAMPLES + j
      assert sample['tokens'] == batch.tokens[row, :batch.lengths[row]].tolist()
      assert sample['scores'] == pytest.approx(batch.scores[row], abs=1e-4)
  summary = json.loads((tmp_path / 'several' / 'summary.json').read_text())
  assert summary['num_samples'] == SAMPLES and summary['examples'] == len(EXAMPLES)
  assert sum(summary['status'].values()) == SAMPLES * len(EXAMPLES)
  assert summary['tokens'] == batch.lengths.sum()
  assert '5 examples of 3 samples each' in capsys.readouterr().out
  best = run('best', num_samples=SAMPLES, best_first=True)
  for line, sorted_line in zip(several, best):
    scores = [s['scores'] for s in sorted_line['samples']]
    assert scores == sorted(scores, reverse=True)
    assert sorted(line['samples'], key=lambda s: s['sample']) == sorted(
        sorted_line['samples'], key=lambda s: s['sample'])
  assert any(line != other for line, other in zip(several, best))


def test_a_job_of_samples_that_was_stopped_goes_on(run, monkeypatch):
  whole, returns, ended = run('whole', num_samples=SAMPLES), [], running.Running.ended

  def instead(loop):
    returns.append(ended(loop))
    if sum(len(tags) for tags, _ in returns) >= 2:
      raise KeyboardInterrupt
    return returns[-1]

  with monkeypatch.context() as patch:
    patch.setattr(running.Running, 'ended', instead)
    with pytest.raises(KeyboardInterrupt):
      run('stopped', num_samples=SAMPLES)
  assert run('stopped', num_samples=SAMPLES) == whole


def test_a_row_that_fails_is_tried_alone_with_all_of_its_samples(run, monkeypatch, tmp_path):
  whole, advance = run('whole', num_samples=SAMPLES), running.Running.advance

  def instead(loop):
    if any(item.window.inputs.examples[item.place].id == 'a2' for item in loop.running + loop.waiting):
      raise RuntimeError('no')
    advance(loop)

  monkeypatch.setattr(running.Running, 'advance', instead)
  with pytest.raises(RunFailed, match='1 of 5 examples failed'):
    run('failing', num_samples=SAMPLES)
  found = [json.loads(line) for line in (tmp_path / 'failing' / 'predictions.jsonl').read_text().splitlines()]
  assert found[2]['status'] == 'FAILED' and found[:2] + found[3:] == whole[:2] + whole[3:]


def test_the_order_needs_several_samples(run):
  with pytest.raises(SettingError, match='best_first = True would be ignored'):
    run('out', best_first=True)


def test_texts_go_on_from_their_prefixes(run, target, draft):
  found = run('out', examples=PREFIXED, num_samples=2)
  rows = [target.vocabulary.encode(e.target_prefix) if isinstance(e.target_prefix, str) else list(e.target_prefix or ())
          for e in PREFIXED]
  prefix = np.array([(row + [0] * 16)[:16] for row in rows])
  batch = sd.speculative_decode(
      target, draft, target.encode(TEXTS), gamma=2, sampling=Sampling(temperature=1.0), max_decode_len=8, num_samples=2,
      ids=[key_id(e.id) for e in EXAMPLES], target_prefix=prefix, target_prefix_lengths=list(map(len, rows)))
  for i, (line, example) in enumerate(zip(found, PREFIXED)):
    given = example.target_prefix
    assert line.get('target_prefix') == (list(given) if isinstance(given, tuple) else given)
    for j, sample in enumerate(line['samples']):
      row = 2 * i + j
      assert sample['tokens'] == batch.tokens[row, :batch.lengths[row]].tolist()
      assert sample['scores'] == pytest.approx(batch.scores[row], abs=1e-4)
      assert sample['statistics']['emitted'] == len(sample['tokens'])


@pytest.mark.parametrize(('prefix', 'changes', 'message'), [
    ((5, 1, 6), {}, "Example a1's target prefix has the token id 1, which ends a text"),
    ((5, 500), {}, "Example a1's target prefix has the token id 500"),
    ((5, 6, 7), {'max_target_prefix_len': 2}, 'of 3 tokens, and max_target_prefix_len is 2'),
    ('the', {'max_target_prefix_len': 0}, 'has a target prefix, which this run does not take')])
def test_prefixes_that_are_refused(run, monkeypatch, tmp_path, prefix, changes, message):
  examples = [EXAMPLES[0], dataclasses.replace(EXAMPLES[1], target_prefix=prefix)]
  with pytest.raises(InputError, match=message):
    run('out', examples=examples, **changes)
  if not changes and len(prefix) == 3:  # found late, it stops no other
    monkeypatch.setattr(stream, 'WINDOW', 1)
    with pytest.raises(RunFailed, match='1 of 2 examples failed'):
      run('late', examples=examples)
    assert message in (tmp_path / 'late' / 'predictions.jsonl').read_text()


def test_what_is_chosen_is_measured_on_one_text_without_prefixes(run, monkeypatch):
  seen = []

  def choose(target, method, batches):
    seen.append((method.num_samples, [b.prefix for b in batches]))
    return choosing.Choice(sd.Tree.chain(2), 'as it is')

  monkeypatch.setattr(choosing, 'choose', choose)
  found = run('out', examples=PREFIXED, num_samples=2, gamma='auto')
  assert seen == [(1, [None] * 3)] and len(found[0]['samples']) == 2
