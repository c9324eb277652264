"""The check and complete runs of a decoder-only pair; what the check finds wrong."""

import copy
import json

import numpy as np
import pytest
import tiny_lm
from tiny_pair import SENTENCES

import specdec_jax as sd
from specdec_jax.analysis import theory, worked_example
from specdec_jax.data.examples import Example
from specdec_jax.jobs.claims import claimed
from specdec_jax.reports import check as report
from specdec_jax.runs import check as check_lib
from specdec_jax.runs.complete import complete
from specdec_jax.runs.decode import decode

GREEDY = sd.Sampling(temperature=0.0)


@pytest.fixture(scope='module')
def pair(tmp_path_factory):
  v = tiny_lm.vocabulary(tmp_path_factory.mktemp('vocabulary'))
  target = tiny_lm.random_lm(0, v)
  nudge = np.random.default_rng(1)
  params = {**target.params, 'position_embedder': {
      'embedding': target.params['position_embedder']['embedding'] + 0.3 * nudge.normal(size=(32, 16))}}
  return target, target.replace(params=params)  # a draft that agrees often


def alone(target, prompt):
  """The target's own greedy tokens, in the shape that the runs use."""
  tokens, lengths = target.prompts([prompt])
  r = sd.autoregressive_decode(target, np.pad(tokens, ((0, 0), (0, 16 - tokens.shape[1]))),
                               lengths=lengths, sampling=GREEDY, max_decode_len=12)
  return r.tokens[0, :r.lengths[0]].tolist()


@pytest.fixture(scope='module')
def checked(pair, tmp_path_factory):
  directory = tmp_path_factory.mktemp('check')
  examples = [Example(i, ' '.join(t.split()[:2])) for i, t in enumerate(SENTENCES[:6])]
  return check_lib.check(str(directory), *pair, examples, gamma=4, tree=sd.Tree((-1, -1, 0)), batch_size=1,
                         max_decode_len=12, max_input_len=16, buckets=(16,)), directory


def test_all_drafts_give_the_targets_text_at_their_own_pace(checked):
  result, directory = checked
  rows = {row['draft']: row for row in result['drafts']}
  assert not result['failures']
  assert {row['outputs']['relation'] for row in rows.values()} == {'identical'}
  assert rows['the target itself']['alpha'] > 0.999 and rows['the target itself']['acceptance_rate'] == 1
  assert rows['random weights']['alpha'] < 0.3 and rows['shuffled rows']['alpha'] < 0.3
  assert rows['random weights']['alpha'] < rows['the draft']['alpha'] < 1
  assert rows['random weights']['tokens_per_call'] < rows['the draft']['tokens_per_call']
  by_tree = {name: row for name, row in rows.items() if name.endswith('tree of 3 nodes, depth 2')}
  assert len(rows) == 8 and len(by_tree) == 4
  for name, row in rows.items():
    expected = None if name in by_tree else theory.expected_tokens(row['alpha'], 4)
    assert row['expected_tokens_per_call'] == expected
    assert row['tokens_per_call'] == row['emitted'] / row['target_calls']
  text = (directory / 'check.md').read_text()
  assert 'alpha 0.7 gives 2.77 tokens per call, 0.9 gives 4.10' in text
  assert json.loads((directory / 'check.json').read_text())['drafts'] == result['drafts']


@pytest.mark.parametrize('change, words', [
    (lambda r: r['drafts'][2]['outputs'].update(not_ties=[{}]), 'with random weights as the draft 1 texts'),
    (lambda r: r['drafts'][1].update(acceptance_rate=0.98), 'the target accepts only 0.980'),
    (lambda r: r['drafts'][3].update(alpha=0.999), 'shuffled rows agree with the target'),
    (lambda r: r['worked_example']['simulation'].update(accepted=[0.51, 0.1]), 'two tokens, accepted'),
])
def test_what_is_wrong_is_said(checked, change, words):
  result = copy.deepcopy(checked[0])
  change(result)
  found, = report.failures(result)
  assert words in found and f'**Wrong:** {found}' in report.markdown({**result, 'failures': [found]})


def test_unreliable_times_are_called_so(checked):
  text = report.markdown({**checked[0], 'unreliable': ['the draft: the median repeat took 40% longer']})
  assert '**Warning:** speed-up: these timings are unreliable' in text and 'check.repeats of 3 or more' in text
  assert checked[0]['unreliable'] == []  # one repeat has no spread


def test_a_rule_that_accepts_all_is_found_out(checked, monkeypatch):
  monkeypatch.setattr(worked_example, 'verify', lambda p, q, draft, key: (1, draft[0]))
  found, *_ = report.failures({**checked[0], 'worked_example': check_lib.example()})
  assert 'two tokens, acceptance: simulation gives 1.0, arithmetic 0.6' in found


def test_complete_prints_prompt_and_text(pair, tmp_path, capsys):
  drafter = sd.ModelDrafter(pair[1])
  said = complete(str(tmp_path), pair[0], 'the file', drafter, 4, sampling=GREEDY, max_decode_len=12,
                  max_input_len=16)
  printed = capsys.readouterr().out
  assert printed.startswith('the file') and said['text'] in printed
  assert f"in {said['target_calls']} target calls, {said['tokens_per_call']:.2f} tokens a call" in printed
  assert said['tokens'] == alone(pair[0], 'the file')
  assert not list(tmp_path.iterdir())


def test_prompts_through_the_decode_run(pair, tmp_path):
  examples = [Example(i, t) for i, t in enumerate(['today', 'the file of new media'])]
  with claimed(str(tmp_path), {}):
    decode(str(tmp_path), pair[0], examples, sd.ModelDrafter(pair[1]), 4, sampling=GREEDY, batch_size=1,
           max_decode_len=12, max_input_len=16, buckets=(16,))
  lines = [json.loads(line) for line in (tmp_path / 'predictions.jsonl').read_text().splitlines()]
  for line in lines:
    assert line['tokens'] == alone(pair[0], line['input'])
