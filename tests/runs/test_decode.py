import itertools
import json

import numpy as np
import pytest

from specdec_jax.data.examples import Example, read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import OutputError, RunFailed
from specdec_jax.jobs import batching
from specdec_jax.jobs.claims import claimed
from specdec_jax.jobs.methods import Method
from specdec_jax.runs.decode import decode
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

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
    models = {'target': settings.pop('target', target)}
    with claimed(directory, {k: repr(v) for k, v in changes.items() if k not in ('target', 'drafter')}):
      decode(directory, **models, examples=examples, **settings)
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


def test_token_ids_are_decoded_as_the_text_that_they_are(run, target, examples):
  given = lambda e: Example(e.id, None, e.reference, tuple(target.encode_rows(e.text)[0]))
  by_text, by_ids = run('text'), run('ids', examples=[given(e) for e in examples])
  assert [line.pop('input') for line in by_ids] == target.encode_rows([e.text for e in examples])
  assert [line.pop('input') for line in by_text] == [e.text for e in examples]
  assert by_ids == by_text


def test_a_model_without_a_vocabulary_decodes_token_ids(run, target, draft, examples):
  given = [Example(e.id, None, tokens=tuple(target.encode_rows(e.text)[0])) for e in examples[:4]]
  found = run('ids', examples=given, target=target.replace(vocabulary=None),
              drafter=ModelDrafter(draft.replace(vocabulary=None)))
  assert [line['text'] for line in found] == [None] * 4
  assert [line['tokens'] for line in found] == [line['tokens'] for line in run('text', examples=examples[:4])]


def test_greedy_speculative_texts_are_the_targets_own(run):
  greedy = Sampling(temperature=0.0)
  alone = run('alone', drafter=None, gamma=None, sampling=greedy)
  fast = run('fast', sampling=greedy)
  assert [line['tokens'] for line in alone] == [line['tokens'] for line in fast]
  assert all(line['statistics']['drafted'] == 0 for line in alone)


TREE = Tree((-1, -1, 0, 0, 2))


def test_trees_and_block_verification_are_settings_of_a_run(run, tmp_path):
  greedy = Sampling(temperature=0.0)
  alone = run('alone', drafter=None, gamma=None, sampling=greedy)
  by_tree = run('tree', gamma=None, tree=TREE, sampling=greedy)
  by_block = run('block', verification='block', sampling=greedy)
  assert [r['tokens'] for r in alone] == [r['tokens'] for r in by_tree] == [r['tokens'] for r in by_block]
  for line in by_tree:
    counts = line['statistics']
    assert len(counts['accepted_by_position']) == 3 and len(counts['accepted_by_rank']) == 2
    assert counts['accepted'] == sum(counts['accepted_by_rank'])
    assert all(a <= o for a, o in zip(counts['accepted_by_rank'], counts['offered_by_rank']))
  named = lambda name: json.loads((tmp_path / name / 'summary.json').read_text())['method']
  assert named('tree').endswith('tree of 5 nodes, depth 3') and named('block').endswith('gamma 2, block verification')


def test_a_directory_belongs_to_one_tree_and_one_verification(run):
  run('tree', gamma=None, tree=TREE)
  with pytest.raises(OutputError, match=r"tree is Tree\(parents=\(-1, -1, 0, 0, 2\)\) there and .*0, 1\)\) here"):
    run('tree', gamma=None, tree=Tree((-1, -1, 0, 0, 1)))
  run('block', verification='block')
  with pytest.raises(OutputError, match="verification is 'block' there and not set here"):
    run('block')


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


@pytest.mark.parametrize('keep', [0, 1, 5])
def test_a_finished_job_whose_file_was_cut_decodes_what_is_missing(run, monkeypatch, tmp_path, keep):
  whole = run('out')
  path = tmp_path / 'out' / 'predictions.jsonl'
  path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[:keep]))
  decoded, call = [], Method.__call__
  monkeypatch.setattr(Method, '__call__', lambda self, target, batch: (
      decoded.extend(batch.indices.tolist()), call(self, target, batch))[1])
  assert run('out') == whole and sorted(decoded) == list(range(keep, len(whole)))


@pytest.mark.parametrize('which', ['target', 'drafter'])
def test_weights_that_were_replaced_between_stop_and_restart_are_refused(run, which, target, draft, tmp_path):
  whole = run('out')
  (tmp_path / 'out' / 'predictions.jsonl').write_text('')
  model = draft if which == 'drafter' else target
  embedding = model.params['token_embedder']['embedding']
  other = model.replace(params={**model.params, 'token_embedder': {'embedding': embedding.at[0, 0].add(1e-3)}})
  with pytest.raises(OutputError, match=f'The {which} has changed'):
    run('out', **{which: ModelDrafter(other) if which == 'drafter' else other})
  assert run('out') == whole


class Fails:
  """In place of Method's call: fails for a batch that has an example of these, or by itself for any."""

  def __init__(self, monkeypatch, bad, error='out of something'):
    self.bad, self.error, self.calls = set(bad), error, []
    call = Method.__call__

    def instead(method, target, batch):
      self.calls.append(batch.indices.tolist())
      if self.bad & set(batch.ids.tolist()):
        raise RuntimeError(self.error)
      return call(method, target, batch)

    monkeypatch.setattr(Method, '__call__', instead)


def test_an_example_that_fails_loses_nothing_else(run, monkeypatch, tmp_path, capsys):
  whole = run('whole')
  failing = Fails(monkeypatch, [batching.key_id('a4')])
  with pytest.raises(RunFailed, match='1 of 12 examples failed'):
    run('failing')
  found = lines(tmp_path / 'failing')
  assert found[4] == {'id': 'a4', 'status': 'FAILED', 'error': 'out of something'}
  assert found[:4] + found[5:] == whole[:4] + whole[5:]
  assert "['a4'] failed: out of something" in capsys.readouterr().err
  failing.bad.clear()
  failing.calls.clear()
  assert run('failing') == whole and failing.calls == [[4]]


def test_a_batch_too_large_for_the_memory_is_not_tried_row_by_row(run, monkeypatch, tmp_path):
  failing = Fails(monkeypatch, [], 'RESOURCE_EXHAUSTED: memory')
  run('whole')
  last = failing.calls[-1]  # not the first, which would end the job
  failing.calls.clear()
  failing.bad = {batching.key_id(f'a{last[0]}')}
  with pytest.raises(RunFailed, match='4 of 12 examples failed'):
    run('failing')
  assert [len(b) for b in failing.calls] == [4, 4, 4]
  assert [line['status'] for line in lines(tmp_path / 'failing')].count('FAILED') == 4


def test_a_fault_of_every_example_ends_the_run_with_the_first_batch(run, monkeypatch, tmp_path):
  failing = Fails(monkeypatch, map(batching.key_id, (f'a{i}' for i in range(12))))
  with pytest.raises(RuntimeError, match='out of something'):
    run('failing')
  assert [len(b) for b in failing.calls] == [4, 1, 1, 1, 1]
  partial = (tmp_path / 'failing' / 'predictions.partial.jsonl').read_text().splitlines()
  assert [json.loads(line)['status'] for line in partial] == ['FAILED'] * 4


def test_many_failures_end_the_run(run, monkeypatch):
  failing = Fails(monkeypatch, [])
  run('whole', batch_size=1)
  first = failing.calls[0]
  failing.bad = {batching.key_id(f'a{i}') for i in range(12) if i not in first}
  failing.calls.clear()
  with pytest.raises(RuntimeError, match='out of something'):
    run('failing', batch_size=1)
  assert len(failing.calls) == 1 + 10


def test_settings_that_would_be_ignored_are_refused(run):
  with pytest.raises(ValueError, match='gamma = 2 would be ignored'):
    run('out', drafter=None)
  with pytest.raises(ValueError, match='lenience = 0.5 would be ignored'):
    run('out', drafter=None, gamma=None, lenience=0.5)
  with pytest.raises(ValueError, match='gamma is 0'):
    run('out', gamma=0)
  with pytest.raises(ValueError, match='gamma is 2 and there is a tree too'):
    run('out', tree=TREE)
  with pytest.raises(ValueError, match="tree = 3 and verification = 'block' would be ignored"):
    run('out', drafter=None, gamma=None, tree=3, verification='block')
  with pytest.raises(ValueError, match="verification is 'block' and the draft is a tree"):
    run('out', gamma=None, tree=TREE, verification='block')
  with pytest.raises(ValueError, match='lenience is 0.5 and the draft is a tree'):
    run('out', gamma=None, tree=TREE, lenience=0.5)


def test_changed_inputs_are_noticed(run, examples):
  run('out')
  with pytest.raises(ValueError, match='The inputs have changed'):
    run('out', examples=[*examples[:-1], Example('a11', 'something else')])
