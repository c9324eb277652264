import dataclasses
import json

import numpy as np
import pytest
import tiny_lm

import specdec_jax as sd
from specdec_jax import scoring
from specdec_jax.data.examples import Example, read_examples
from specdec_jax.errors import InputError, OutputError, RunFailed
from specdec_jax.jobs import stream
from specdec_jax.jobs.claims import claimed
from specdec_jax.runs.score import score

TARGETS = (('window', 'the new media size'), ('not valid',), ('here today', 'of', 'the file the file'))
EXAMPLES = [Example(f'a{i}', text, targets=targets, label=i % len(targets))
            for i, (text, targets) in enumerate(zip(('the file', 'cannot be opened', 'because'), TARGETS))]


@pytest.fixture
def run(target, tmp_path):
  """Scores into tmp_path/NAME; returns its lines and the summary."""
  def call(name, examples=EXAMPLES, model=target, **changes):
    directory = tmp_path / name
    with claimed(str(directory), {k: repr(v) for k, v in changes.items()}):
      summary = score(str(directory), model, examples, **{'batch_size': 3, 'max_input_len': 16, **changes})
    return lines(directory), summary

  return call


def lines(directory):
  return [json.loads(line) for line in (directory / 'predictions.jsonl').read_text().splitlines()]


def alone(model, example, targets):
  """sd.score of each target, one by one, and their lengths."""
  rows = [[*model.vocabulary.encode(t), model.eos_id] for t in targets]
  return [float(sd.score(model, model.encode([example.text]), [row])[0]) for row in rows], list(map(len, rows))


def test_lines_hold_the_log_likelihoods(run, target):
  found, summary = run('out')
  normalized, _ = run('tokens', normalization='tokens', per_token=True)
  for line, other, example in zip(found, normalized, EXAMPLES):
    wanted, lengths = alone(target, example, example.targets)
    assert line['scores'] == pytest.approx(wanted, abs=1e-4) and line['lengths'] == lengths
    assert other['scores'] == pytest.approx(np.divide(wanted, lengths), abs=1e-4)
    assert [sum(log_probs) for log_probs in other['log_probs']] == pytest.approx(wanted, abs=1e-4)
    assert line['correct'] == (int(np.argmax(wanted)) == example.label)
    assert line.get('best') == (int(np.argmax(wanted)) if len(wanted) > 1 else None)
    assert line['status'] == 'SCORED' and line['targets'] == list(example.targets)
  assert summary['accuracy'] == np.mean([line['correct'] for line in found]) and summary['labelled'] == 3
  assert summary['targets'] == 6 and summary['tokens'] == sum(sum(line['lengths']) for line in found)
  assert summary['log_likelihood_per_token'] == pytest.approx(
      sum(sum(line['scores']) for line in found) / summary['tokens'])


def test_the_targets_of_an_input_share_one_encoder_pass(run, monkeypatch):
  calls, inner = [], scoring._log_probabilities
  monkeypatch.setattr(scoring, '_log_probabilities', lambda model, request, targets: (
      calls.append((request.tokens.shape, targets.shape)), inner(model, request, targets))[1])
  run('out')
  assert calls == [((3, 16), (3 * 4, 16))]


def test_references_and_token_ids(run, target):
  references = [Example(e.id, e.text, reference=e.targets[0]) for e in EXAMPLES]
  by_text, summary = run('text', examples=references, add_eos=False)
  ids = [Example(e.id, e.text, targets=(tuple(target.vocabulary.encode(e.targets[0])),)) for e in EXAMPLES]
  by_ids, _ = run('ids', examples=ids)
  assert [line['scores'] for line in by_text] == [line['scores'] for line in by_ids]
  assert summary['accuracy'] is None and 'correct' not in by_text[0]


def test_prompts_of_a_decoder_only_model(run, tmp_path):
  model = tiny_lm.random_lm(0, tiny_lm.vocabulary(tmp_path))
  examples = [Example(i, None, tokens=tokens, targets=((3, 4), (5,))) for i, tokens in enumerate([(3, 4, 5), (6,)])]
  found, _ = run('lm', examples=examples, model=model, max_input_len=4)
  for line in found:
    for ids, got in zip(line['targets'], line['scores']):
      assert got == pytest.approx(float(sd.score(model, [line['input']], [ids])[0]), abs=1e-4)


@pytest.mark.parametrize(('example', 'changes', 'message'), [
    (Example('b', 'the'), {}, 'Example b has no target to score'),
    (Example('b', 'the', targets=('of',)), {'max_target_len': 1}, 'a target of .* tokens; it must have 1 to'),
    (Example('b', 'the', targets=((500,),)), {}, "Example b's target has the token id 500"),
    (Example('b', 'the', targets=('of',), target_prefix='a'), {}, 'has a target prefix, which this run does not take')])
def test_what_cannot_be_scored(run, monkeypatch, tmp_path, example, changes, message):
  with pytest.raises(InputError, match=message):
    run('out', examples=[example], **changes)
  if not changes:
    monkeypatch.setattr(stream, 'WINDOW', 1)
    with pytest.raises(RunFailed, match='1 of 2 examples failed'):
      run('late', examples=[EXAMPLES[1], example], batch_size=1)
    assert [line['status'] for line in lines(tmp_path / 'late')] == ['SCORED', 'FAILED']


def test_a_run_that_was_stopped_goes_on_and_failures_are_tried_alone(run, monkeypatch, tmp_path):
  one_by_one = dict(examples=[dataclasses.replace(e, targets=e.targets[:1], label=0) for e in EXAMPLES], batch_size=1)
  whole, _ = run('whole', **one_by_one)
  inner, calls = scoring.score, []

  def fails(*args, **options):
    calls.append(1)
    if len(calls) == 2:
      raise RuntimeError('no')
    return inner(*args, **options)

  with monkeypatch.context() as patch:
    patch.setattr(scoring, 'score', fails)
    with pytest.raises(RunFailed, match='1 of 3'):
      run('out', **one_by_one)
  assert run('out', **one_by_one)[0] == whole
  with pytest.raises(OutputError, match="normalization is not set there and 'tokens' here"):
    run('out', **one_by_one, normalization='tokens')


def test_fields_of_files(tmp_path):
  path = tmp_path / 'ranks.jsonl'
  path.write_text('{"text": "a", "targets": ["x", "y"], "label": 1}\n{"text": "b", "targets": [[3, 1], [4, 1]], '
                  '"label": "0"}\n{"text": "c", "targets": "z", "label": 0, "target_prefix": "so"}\n')
  found = list(read_examples(path, targets_field='targets', label_field='label'))
  assert [(e.targets, e.label, e.target_prefix) for e in found] == [
      (('x', 'y'), 1, None), (((3, 1), (4, 1)), 0, None), (('z',), 0, 'so')]
  assert read_examples(path)[0].targets == ()
  tsv = tmp_path / 'ranks.tsv'
  tsv.write_text('a\tx\tso\nb\ty\t\n')
  assert [(e.targets, e.target_prefix) for e in read_examples(tsv, targets_field=1, target_prefix_field=2)] == [
      (('x',), 'so'), (('y',), None)]


@pytest.mark.parametrize(('line', 'message'), [
    ('{"text": "a", "targets": [], "label": 0}', r'the targets are \[\]; use a text, or a list of texts'),
    ('{"text": "a", "targets": ["x"], "label": 1}', 'the label is 1; use a whole number from 0 to 0'),
    ('{"text": "a", "targets": ["x", 3], "label": 1}', 'the target 1 is 3; use a text, or a list of token ids'),
    ('{"text": "a", "targets": ["x"], "label": 0, "target_prefix": 3}', 'the target prefix is 3; use a text, or'),
    ('{"text": "a", "targets": ["x"], "label": 0, "target_prefix": []}', 'the list of token ids of the target prefix'),
    ('{"text": "a", "targets": ["x"]}', "no field 'label'")])
def test_bad_lines(tmp_path, line, message):
  path = tmp_path / 'bad.jsonl'
  path.write_text(line + '\n')
  with pytest.raises(InputError, match=message):
    read_examples(path, targets_field='targets', label_field='label')
