"""The beyond run: its figures follow from one another, and from decodes of their own."""

import json

import pytest

import specdec_jax as sd
from specdec_jax.analysis import theory
from specdec_jax.data.examples import read_examples
from specdec_jax.jobs import choosing
from specdec_jax.jobs.batching import key_id
from specdec_jax.runs.beyond import beyond
from specdec_jax.tpu.prediction import speed_up_on_v4
from specdec_jax.tree import Tree

pytestmark = pytest.mark.long  # every draft is counted, walked and timed
GREEDY, WARM = sd.Sampling(temperature=0.0), sd.Sampling()


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl')


@pytest.fixture(scope='module')
def found(target, draft, examples, tmp_path_factory):
  """The report, and its directory."""
  directory = tmp_path_factory.mktemp('beyond')
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(choosing, 'choose', lambda target, method, batches: choosing.Choice(None, f'{method.auto} measured.'))
    return beyond(str(directory), target, examples, draft, gammas=(1, 2), nodes=(5,), max_depth=3, candidates=6,
                  samplings=(GREEDY, WARM), batch_size=4, max_decode_len=12, max_input_len=32, buckets=(32,),
                  repeats=2), directory


def rows(found, sampling):
  return {(row['draft'], row['verification']): row for row in found[0]['samplings'][sampling]['drafts']}


def test_every_draft_and_rule_is_there_once(found):
  assert list(rows(found, 0)) == [('gamma 1', 'token'), ('gamma 2', 'token'), *list(rows(found, 0))[2:]]
  assert len(rows(found, 0)) == 3 and len(rows(found, 1)) == 5
  assert [rule for _, rule in rows(found, 1)] == ['token', 'token', 'block', 'block', 'token']
  assert {row['outputs']['relation'] for row in rows(found, 0).values()} == {'identical'}
  assert {row['outputs']['relation'] for row in rows(found, 1).values()} == {'same distribution'}


def test_counts_and_walks(found, target, draft, examples):
  for sampling, measured in zip((GREEDY, WARM), found[0]['samplings']):
    tree = Tree(tuple(measured['drafts'][-1]['parents']))
    assert tree == theory.best_tree(measured['acceptance_by_rank'], 5, 3)
    for row in measured['drafts']:
      assert row['over_chain'] == row['tokens_per_call'] / measured['drafts'][1]['tokens_per_call']
      assert row['speed_up_on_v4'] == speed_up_on_v4(row['tokens_per_call'], Tree(tuple(row['parents'])))
      assert row['iteration_cost'] == pytest.approx(row['tokens_per_call'] / row['speed_up'])
      assert (row['walked_tokens_per_call'] is None) == (row['verification'] == 'block')
    if sampling.greedy:
      for row in measured['drafts']:  # at temperature 0 the walk is the decoder's own
        assert row['walked_tokens_per_call'] == pytest.approx(row['tokens_per_call'])
    r = sd.speculative_decode(target, draft, target.encode([e.text for e in examples]), tree=tree, sampling=sampling,
                              max_decode_len=12, ids=[key_id(e.id) for e in examples], buckets=(32,))
    assert measured['drafts'][-1]['tokens_per_call'] == pytest.approx(r.stats.tokens_per_call)


def test_report_and_figure(found):
  result, directory = found
  assert json.loads((directory / 'beyond.json').read_text()) == json.loads(json.dumps(result))
  text = (directory / 'beyond.md').read_text()
  assert text.count('| plain decoding | ') == 4 and 'over gamma 2' in text
  assert text.count('\n| temperature 1 ') == 5 + 1  # and its ranks
  for name in ('beyond.png', 'beyond.svg'):
    assert (directory / name).stat().st_size > 1000
