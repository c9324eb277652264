import errno
import itertools
import json
import os
import shutil
import signal
import time

import numpy as np
import object_store
import pytest

from specdec_jax import stopping
from specdec_jax.data.examples import Example, read_examples
from specdec_jax.decoding.running import Running
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import InputError, OutputError, RunFailed
from specdec_jax.files import mirror, writing
from specdec_jax.jobs import batching, stream
from specdec_jax.jobs.claims import claimed
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.predictions import Predictions
from specdec_jax.model import Model
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


@pytest.mark.long
def test_a_directory_belongs_to_one_tree_and_one_verification(run):
  run('tree', gamma=None, tree=TREE)
  with pytest.raises(OutputError, match=r"tree is Tree\(parents=\(-1, -1, 0, 0, 2\)\) there and .*0, 1\)\) here"):
    run('tree', gamma=None, tree=Tree((-1, -1, 0, 0, 1)))
  run('block', verification='block')
  with pytest.raises(OutputError, match="verification is 'block' there and not set here"):
    run('block')


def indices(items):
  """Places in the job's input."""
  return [item.window.indices[item.place] for item in items]


def watched(monkeypatch, most=None):
  """The inputs that loops hand back, as they do; Ctrl-C comes after so many returns."""
  found, ended = [], Running.ended

  def instead(loop):
    if most is not None and len(found) == most:
      raise KeyboardInterrupt
    items, result = ended(loop)
    found.append(indices(items))
    return items, result

  monkeypatch.setattr(Running, 'ended', instead)
  return found


def test_a_run_that_was_stopped_goes_on(run, monkeypatch, tmp_path):
  whole = run('whole')
  with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
    before = watched(patch, most=4)
    run('stopped')
  assert not (tmp_path / 'stopped' / 'predictions.jsonl').exists()
  written = (tmp_path / 'stopped' / 'predictions.partial.jsonl').read_text().splitlines()
  written = {json.loads(line)['index'] for line in written}
  assert written and written <= set(itertools.chain(*before))
  after = watched(monkeypatch)
  assert run('stopped') == whole
  assert sorted([*written, *itertools.chain(*after)]) == list(range(len(whole))), 'nothing is decoded twice'
  after.clear()
  assert run('stopped') == whole and not after


def test_sigterm_finishes_the_rows_that_run_and_begins_no_other(run, monkeypatch, tmp_path):
  whole, advance, calls, running = run('whole'), Running.advance, [], []

  def instead(loop):
    calls.append(None)
    if len(calls) == 3:
      os.kill(os.getpid(), signal.SIGTERM)
    advance(loop)
    if len(calls) == 3:
      running.extend(indices(loop.running))

  monkeypatch.setattr(Running, 'advance', instead)
  with pytest.raises(stopping.Stopped) as caught, stopping.stoppable(lambda stopped: None):
    run('stopped')
  partial = (tmp_path / 'stopped' / 'predictions.partial.jsonl').read_text().splitlines()
  written = {json.loads(line)['index'] for line in partial}
  assert len(running) == 4 and set(running) <= written and len(written) < len(whole)
  path = tmp_path / 'stopped' / 'predictions.partial.jsonl'
  assert caught.value.code == 143 and str(caught.value) == (
      f'stopped by SIGTERM; {len(written)} examples are in {path}, and the same command goes on with the rest')
  monkeypatch.setattr(Running, 'advance', advance)
  assert run('stopped') == whole


def full_disk(folder, patch):
  def add(predictions, lines, _add=Predictions.add):
    with writing.named(predictions.partial_path):
      if predictions.num_done >= 4:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    _add(predictions, lines)

  patch.setattr(Predictions, 'add', add)


def vanished(folder, patch):
  patch.setattr(Running, 'ended', lambda loop, _ended=Running.ended: (
      shutil.move(folder, folder.with_name('moved')) if folder.exists() else None, _ended(loop))[1])


@pytest.mark.parametrize('fault, words', [
    (full_disk, r"predictions\.partial\.jsonl' cannot be written \(No space left on device; make room there"),
    (vanished, r"predictions\.partial\.jsonl' cannot be written \(.*its directory is gone")])
def test_an_output_that_is_full_or_gone_is_named_and_stays_whole(run, monkeypatch, tmp_path, fault, words):
  whole = run('whole')
  with monkeypatch.context() as patch, pytest.raises(OutputError, match=words):
    fault(tmp_path / 'out', patch)
    run('out')
  if fault is vanished:
    shutil.rmtree(tmp_path / 'out', ignore_errors=True)
    shutil.move(tmp_path / 'moved', tmp_path / 'out')
    os.remove(tmp_path / 'out' / '.lock')  # of this process, which lives
  partial = (tmp_path / 'out' / 'predictions.partial.jsonl').read_text()
  assert all(json.loads(line)['id'].startswith('a') for line in partial.splitlines())
  assert run('out') == whole


@pytest.mark.parametrize('keep', [0, 1, 5])
def test_a_finished_job_whose_file_was_cut_decodes_what_is_missing(run, monkeypatch, tmp_path, keep):
  whole = run('out')
  path = tmp_path / 'out' / 'predictions.jsonl'
  path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[:keep]))
  decoded = watched(monkeypatch)
  assert run('out') == whole and sorted(itertools.chain(*decoded)) == list(range(keep, len(whole)))


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
  """In place of a loop's `advance`: fails where the loop holds an example of these; what each call held."""

  def __init__(self, monkeypatch, bad, error='out of something'):
    self.bad, self.error, self.calls = set(bad), error, []
    advance = Running.advance

    def instead(loop):
      self.calls.append(indices([*loop.running, *loop.waiting]))
      if self.bad & set(self.calls[-1]):
        raise RuntimeError(self.error)
      advance(loop)

    monkeypatch.setattr(Running, 'advance', instead)


def test_an_example_that_fails_loses_nothing_else(run, monkeypatch, tmp_path, capsys):
  whole = run('whole')
  failing = Fails(monkeypatch, [4])
  with pytest.raises(RunFailed, match='1 of 12 examples failed'):
    run('failing')
  found = lines(tmp_path / 'failing')
  assert found[4] == {'id': 'a4', 'status': 'FAILED', 'error': 'out of something'}
  assert found[:4] + found[5:] == whole[:4] + whole[5:]
  assert "example 'a4' failed: out of something" in capsys.readouterr().err
  failing.bad.clear()
  failing.calls.clear()
  assert run('failing') == whole and set(itertools.chain(*failing.calls)) == {4}


def test_a_lack_of_memory_is_not_tried_row_by_row(run, monkeypatch, tmp_path):
  failing = Fails(monkeypatch, [], 'RESOURCE_EXHAUSTED: memory')
  run('whole')
  failing.bad = {failing.calls[-1][0]}  # one of the last, or the job would end
  failing.calls.clear()
  with pytest.raises(RunFailed, match='of 12 examples failed'):
    run('failing')
  failed = [i for i, line in enumerate(lines(tmp_path / 'failing')) if line['status'] == 'FAILED']
  assert failed == sorted(failing.calls[-1]) and len(failed) > 1


def test_a_fault_of_every_example_ends_the_run_at_once(run, monkeypatch, tmp_path):
  failing = Fails(monkeypatch, range(12))
  with pytest.raises(RuntimeError, match='out of something'):
    run('failing')
  assert [len(b) for b in failing.calls] == [4, 1, 1, 1, 1]
  partial = (tmp_path / 'failing' / 'predictions.partial.jsonl').read_text().splitlines()
  assert [json.loads(line)['status'] for line in partial] == ['FAILED'] * 4


def test_many_failures_end_the_run(run, monkeypatch, tmp_path):
  failing = Fails(monkeypatch, [])
  run('whole', batch_size=1)
  failing.bad = set(range(12)) - set(failing.calls[0])
  with pytest.raises(RuntimeError, match='out of something'):
    run('failing', batch_size=1)
  partial = (tmp_path / 'failing' / 'predictions.partial.jsonl').read_text().splitlines()
  assert [json.loads(line)['status'] == 'FAILED' for line in partial] == [False] + [True] * 10


def test_a_text_that_cannot_be_made_fails_alone(run, monkeypatch, tmp_path):
  whole, text_of = run('whole'), Model.decode

  def instead(model, tokens, lengths=None):
    if whole[7]['tokens'] in [row[:n].tolist() for row, n in zip(tokens, lengths)]:
      raise ValueError('no text')
    return text_of(model, tokens, lengths)

  monkeypatch.setattr(Model, 'decode', instead)
  with pytest.raises(RunFailed, match='1 of 12 examples failed'):
    run('failing')
  found = lines(tmp_path / 'failing')
  assert found[7] == {'id': 'a7', 'status': 'FAILED', 'error': 'no text'}
  assert found[:7] + found[8:] == whole[:7] + whole[8:]


def test_inputs_that_are_too_long(run, monkeypatch, tmp_path):
  """Those at the beginning are refused before anything is decoded; later ones fail alone; cut ones are said to be."""
  monkeypatch.setattr(stream, 'WINDOW', 8)
  with pytest.raises(InputError, match=r'of 8 inputs are longer than max_input_len = 8 tokens: a'):
    run('refused', max_input_len=8)
  cut = run('cut', max_input_len=8, long_inputs='cut')
  count = sum('cut' in line for line in cut)
  assert 0 < count < len(cut)
  assert json.loads((tmp_path / 'cut' / 'summary.json').read_text())['cut_inputs'] == count
  short = [Example(f'b{i}', 'new media') for i in range(8)]
  with pytest.raises(RunFailed, match='1 of 9 examples failed'):
    run('later', [*short, Example('long', 'window is not valid here today ' * 4)], max_input_len=8)
  found = lines(tmp_path / 'later')
  assert found[8]['error'].startswith('it has ') and found[8]['error'].endswith('and max_input_len is 8')
  assert [line['status'] != 'FAILED' for line in found] == [True] * 8 + [False]


@pytest.mark.parametrize('window', [1, 3, 5])
def test_windows_change_no_result(run, monkeypatch, window):
  whole = run('whole')
  monkeypatch.setattr(stream, 'WINDOW', window)
  assert run('windows') == whole


def test_several_loops_and_their_occupancy(run, monkeypatch, tmp_path):
  """Inputs of every length, in loops of 8 and of 64 tokens that are kept over windows."""
  settings = {'buckets': (8, 16, 64)}
  whole = run('whole', **settings)
  monkeypatch.setattr(batching, 'SHORTEST_LOOP', 8)
  monkeypatch.setattr(stream, 'WINDOW', 3)
  assert InputOptions(max_input_len=64, buckets=(8, 16, 64)).loop_lengths == [16, 64]
  held = lambda found: [{k: v for k, v in line.items() if k != 'scores'} for line in found]
  assert held(run('loops', **settings)) == held(whole)
  summary = json.loads((tmp_path / 'loops' / 'summary.json').read_text())
  assert 0.3 < summary['occupancy'] <= 1 and summary['tokens_per_second'] > 0


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


def test_a_job_on_an_object_store(run, monkeypatch, tmp_path, target, draft, examples):
  """Its files are those of a local job, from whatever instant it is started again."""
  whole = run('whole')
  store = object_store.replace(monkeypatch)
  for name, value in {'SETTLE': 0.0, 'BEAT': 0.01, 'INTERVAL': 0.0}.items():
    monkeypatch.setattr(mirror, name, value)
  ended = Running.ended
  monkeypatch.setattr(Running, 'ended', lambda loop: (time.sleep(0.05), ended(loop))[1])

  def job():
    with claimed('gs://bucket/out', {}) as directory:
      decode(directory, target, examples, ModelDrafter(draft), gamma=2, max_decode_len=LENGTH, max_input_len=64,
             batch_size=4)
    found = store.objects['gs://bucket/out/predictions.jsonl'].decode().splitlines()
    assert [json.loads(line) for line in found] == whole
    assert {name.rpartition('/')[2] for name in store.objects} == {
        'predictions.jsonl', 'summary.json', 'run.json', 'manifest.json'}

  job()
  assert json.loads(store.objects['gs://bucket/out/summary.json'])['predictions'] == 'gs://bucket/out/predictions.jsonl'
  states = [s for s in store.history if any('partial' in name for name in s)]
  assert len(states) > 3
  for state in [*states[::len(states) // 3], states[-1]]:
    store.objects = {name: data for name, data in state.items() if not name.endswith(mirror.MARK)}
    job()
