import dataclasses
import json

import numpy as np
import pytest

from specdec_jax.analysis import cost as cost_lib, theory
from specdec_jax.data import metrics
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import RunFailed
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.measure import agreement
from specdec_jax.reports import comparison as report, measured as measured_lib
from specdec_jax.runs import compare as compare_lib
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree

GREEDY, WARM = Sampling(temperature=0.0), Sampling(temperature=1.0)
SETTINGS = dict(max_decode_len=12, max_input_len=32, buckets=(32,), batch_size=4,
                short_input_len=8)
STUB_COST = cost_lib.Cost(gamma=2, draft_step=1.0, target_step=2.0, verify_pass=2.0,
                          target_encoder=1.0, draft_encoder=1.0)


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl', reference_field='german')


@pytest.fixture(scope='module')
def drafter(draft):
  return ModelDrafter(draft)


@pytest.fixture(scope='module')
def compared(target, drafter, examples, tmp_path_factory):
  """The report of a comparison at two temperatures, and its directory."""
  directory = tmp_path_factory.mktemp('compare')
  return compare_lib.compare(str(directory), target, examples, drafter, gammas=(2,),
                             samplings=(GREEDY, WARM), repeats=2, metrics=('bleu',),
                             **SETTINGS), directory


def test_both_count_the_same_tokens_the_same_way(compared, target, examples):
  greedy, warm = compared[0]['experiments']
  assert greedy['outputs']['relation'] == 'identical' and warm['outputs']['relation'] == 'same distribution'
  assert greedy['target_alone']['tokens'] == greedy['speculative']['tokens']
  inputs = InputOptions(max_input_len=32).encode(target, examples)
  method = Method(sampling=WARM, max_decode_len=12)
  tokens = sum(int(method(target, b).lengths[:len(b.indices)].sum())
               for b in InputOptions(batch_size=12, max_input_len=32).batches(inputs))
  assert warm['target_alone']['tokens'] == tokens


def test_figures_follow_from_one_another(compared):
  for e in compared[0]['experiments']:
    for who in ('target_alone', 'speculative'):
      assert e[who]['tokens_per_second'] == pytest.approx(e[who]['tokens'] / e[who]['seconds'])
    assert e['speed_up'] == pytest.approx(
        e['speculative']['tokens_per_second'] / e['target_alone']['tokens_per_second'])
    assert e['acceptance_rate'] == e['accepted'] / e['drafted']
    assert e['tokens_per_call'] == e['emitted'] / e['target_calls']
    assert e['emitted'] == e['speculative']['tokens']
    assert e['expected_tokens_per_call'] == theory.expected_tokens(e['alpha'], 2)
    assert e['predicted_speed_up'] == theory.walltime_improvement(e['alpha'], 2, e['c'])
    assert e['predicted_speed_up_with_verify_cost'] == theory.walltime_improvement(
        e['alpha'], 2, e['c'], e['verify_cost'])
    timings = e['timings']
    assert timings['reliable'] == (not timings['reasons']) == (e['best_gamma'] is not None)
    assert e['best_gamma'] in (None, 0, 1, 2)
    assert set(timings['spread']) == {'target alone', 'speculative', 'parts of an iteration'}
    assert timings['speed_up_by_parts'] == pytest.approx(
        e['speed_up'] * timings['explained']['target alone'] / timings['explained']['speculative'])
    assert e['operations_factor'] == theory.operations_increase(e['alpha'], 2, e['c_hat'])
    assert 0 < e['c_hat'] < 1 and e['alpha_tokens'] == e['target_alone']['tokens']
    positions = e['accepted_by_position']
    assert len(positions) == 2 and sum(positions) == e['accepted']
    assert sum(e['drafted_by_position']) == e['drafted'] and e['drafted_by_position'][0] <= e['target_calls']
    assert e['target_calls'] >= positions[0] >= positions[1]
    assert e['t5x'] is None and e['speed_up_over_t5x'] is None
    groups = e['groups']
    assert set(groups) == {'short', 'long'}
    assert groups['short']['inputs'] + groups['long']['inputs'] == e['inputs'] == 12
    for who in ('target_alone', 'speculative'):
      assert sum(g[who]['tokens'] for g in groups.values()) == e[who]['tokens']
      assert sum(g[who]['seconds'] for g in groups.values()) == pytest.approx(e[who]['seconds'])


def test_quality_is_that_of_each_decoders_texts(compared, target, examples):
  greedy, warm = (e['quality']['bleu'] for e in compared[0]['experiments'])
  assert greedy['target_alone'] == greedy['speculative']
  inputs = InputOptions(max_input_len=32).encode(target, examples)
  texts = [''] * 12
  for batch in InputOptions(batch_size=4, max_input_len=32, buckets=(32,)).batches(inputs):
    said = target.decode(Method(sampling=WARM, max_decode_len=12)(target, batch).tokens)
    for i, text in zip(batch.indices, said):
      texts[i] = text
  assert warm['target_alone'] == metrics.bleu(texts, [e.reference for e in examples])


def test_alpha_agrees_with_what_was_accepted(compared):
  """Of the first draft tokens of all blocks a fraction near alpha is accepted."""
  warm = compared[0]['experiments'][1]
  assert 0.2 < warm['alpha'] < 0.9
  assert warm['tokens_per_call'] == pytest.approx(warm['expected_tokens_per_call'], rel=0.2)


def test_report_files(compared, drafter):
  result, directory = compared
  assert json.loads((directory / 'report.json').read_text()) == json.loads(json.dumps(result))
  text = (directory / 'report.md').read_text()
  assert drafter.name in text and 'temperature 1, gamma 2' in text
  assert text.count('- source:') == 3 and 'reference: FILE CANNOT BE' in text
  for words in ('alpha [cor. 3.6]', 'speed-up by thm 3.8', 'inputs up to 8 tokens'):
    assert words in text


def test_a_wrong_greedy_text_fails_after_the_report(
    target, drafter, examples, tmp_path, monkeypatch):
  call = Method.__call__

  def wrong(self, target, batch):
    result = call(self, target, batch)
    if self.drafter is None or self.sampling != GREEDY:
      return result
    tokens = result.tokens.copy()
    tokens[0, 2] = (tokens[0, 2] + 1) % target.num_tokens
    return dataclasses.replace(result, tokens=tokens)

  monkeypatch.setattr(Method, '__call__', wrong)
  monkeypatch.setattr(cost_lib, 'measure', lambda *unused, **also: {2: STUB_COST})
  settings = dict(gammas=(2,), samplings=(GREEDY,), **SETTINGS)
  with pytest.raises(RunFailed, match=r'greedy texts differ .* at token 2 \(margin'):
    compare_lib.compare(str(tmp_path), target, examples, drafter, **settings)
  result = json.loads((tmp_path / 'report.json').read_text())
  outputs = result['experiments'][0]['outputs']
  assert outputs['relation'] == 'different' and len(outputs['not_ties']) >= 3
  tolerant = compare_lib.compare(
      str(tmp_path), target, examples, drafter, tie_margin=1e9, **settings)
  assert tolerant['experiments'][0]['outputs']['relation'] == 'identical but for ties'


def test_the_margin_is_that_of_the_targets_two_largest_logits(target, examples):
  inputs = InputOptions(max_input_len=32).encode(target, examples[:2])
  batch, = InputOptions(batch_size=2, max_input_len=32).batches(inputs)
  alone = Method(sampling=GREEDY, max_decode_len=12)(target, batch)
  tokens = alone.tokens.copy()
  tokens[1, 3] += 1
  found, = agreement.differences(
      target, inputs, [batch], [alone], [dataclasses.replace(alone, tokens=tokens)])
  fed = np.concatenate([[0], alone.tokens[1, :3]])[None].astype(np.int32)
  logits = np.sort(np.asarray(target.logits(batch.tokens[1:2], fed))[0, 3, :target.num_tokens])
  assert found.id == inputs.examples[batch.indices[1]].id and found.position == 3
  assert found.margin == pytest.approx(logits[-1] - logits[-2], abs=1e-4)
  assert agreement.not_ties([found], 'float32', found.margin) == []
  assert agreement.not_ties([found], 'float32', found.margin / 2) == [found]
  assert agreement.not_ties([dataclasses.replace(found, margin=float('nan'))], 'float32')


def test_lenience_is_called_inexact_and_t5x_is_one_more_baseline(
    target, drafter, examples, tmp_path, monkeypatch):
  class StandIn(Method):
    name = 'T5X'

  monkeypatch.setattr(compare_lib, 'T5XMethod', lambda target, length, sampling, seed: StandIn(
      max_decode_len=length, sampling=sampling, seed=seed))
  monkeypatch.setattr(cost_lib, 'measure', lambda *unused, **also: {2: STUB_COST})
  result = compare_lib.compare(str(tmp_path), target, examples, drafter, gammas=(2,),
                               samplings=(WARM,), leniences=(1.0, 0.4), t5x=True, **SETTINGS)
  exact, lenient = result['experiments']
  assert exact['outputs'] == {'relation': 'same distribution'}
  assert lenient['outputs'] == {'relation': 'inexact (lenience 0.4)'}
  assert report.label(lenient) == 'temperature 1, gamma 2, lenience 0.4'
  assert lenient['alpha'] > exact['alpha'] and lenient['acceptance_rate'] > exact['acceptance_rate']
  for e in (exact, lenient):
    assert e['t5x']['tokens'] == e['target_alone']['tokens']
    assert e['speed_up_over_t5x'] == (
        e['speculative']['tokens_per_second'] / e['t5x']['tokens_per_second'])
  text = (tmp_path / 'report.md').read_text()
  assert 'tokens/s, T5X' in text and 'speed-up over T5X' in text


TREE = Tree((-1, -1, 0, 0, 1))


@pytest.mark.long
def test_trees_and_block_verification_are_compared_too(target, drafter, examples, tmp_path, monkeypatch):
  costs = lambda target, drafter, tokens, shapes, *unused, **also: {
      s: dataclasses.replace(STUB_COST, gamma=s if s == 2 else s.depth, nodes=s if s == 2 else s.num_nodes)
      for s in shapes}
  monkeypatch.setattr(cost_lib, 'measure', costs)
  result = compare_lib.compare(str(tmp_path), target, examples, drafter, gammas=(2,), trees=(TREE,),
                               verifications=('token', 'block'), samplings=(GREEDY,), **SETTINGS)
  chain, block, tree = result['experiments']
  assert [e['outputs']['relation'] for e in (chain, block, tree)] == ['identical'] * 3
  assert [report.label(e) for e in (chain, block, tree)] == [
      'greedy, gamma 2', 'greedy, gamma 2, block verification', 'greedy, tree of 5 nodes, depth 2']
  by_rank = tree['acceptance_by_rank']
  assert tree['expected_tokens_per_call'] == theory.expected_tokens(by_rank, tree=TREE)
  assert tree['predicted_speed_up_with_verify_cost'] == theory.speed_up(
      tree['expected_tokens_per_call'], 2, tree['c'], tree['verify_cost'])
  assert tree['operations_factor'] == pytest.approx(
      (3 * tree['c_hat'] + 6) / tree['expected_tokens_per_call'])  # the draft runs on the root and nodes 0 and 1
  assert tree['target_calls'] <= chain['target_calls'] and tree['best_gamma'] is None
  assert sum(tree['accepted_by_rank']) == tree['accepted']
  text = (tmp_path / 'report.md').read_text()
  assert f'{by_rank[0]:.3f}, {by_rank[1]:.3f}' in text and 'of a tree by its ranks' in text
  kept = measured_lib.read([tmp_path / 'report.json'])
  assert [(m.name, m.gamma) for m in kept] == [(drafter.name, 2), (f'{drafter.name}, block verification', 2)]
  with pytest.raises(ValueError, match="lenience is 0.5 and verification 'block'"):
    compare_lib.compare(str(tmp_path), target, examples, drafter, verifications=('block',), leniences=(0.5,))


def test_nothing_to_compare_is_refused(target, drafter, examples, tmp_path):
  with pytest.raises(ValueError, match='compare.gammas is empty; it needs at least one value'):
    compare_lib.compare(str(tmp_path), target, examples, drafter, gammas=())
  with pytest.raises(ValueError, match='repeats is 0'):
    compare_lib.compare(str(tmp_path), target, examples, drafter, repeats=0, **SETTINGS)
  with pytest.raises(ValueError, match=r"compare.metrics\[0\] is 'blue'; it must be 'bleu', 'rouge1'"):
    compare_lib.compare(str(tmp_path), target, examples, drafter, metrics=('blue',), **SETTINGS)
  bare = [dataclasses.replace(e, reference=None) for e in examples]
  with pytest.raises(ValueError, match='bleu needs references, but 12 of 12 examples have none'):
    compare_lib.compare(str(tmp_path), target, bare, drafter, metrics=('bleu',), **SETTINGS)
