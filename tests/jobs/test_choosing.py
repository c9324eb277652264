"""gamma = 'auto' and tree = 'auto', with times that are given."""

import dataclasses
import json

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.analysis import theory
from specdec_jax.analysis.cost import Cost
from specdec_jax.data.examples import read_examples
from specdec_jax.errors import OutputError, RunFailed
from specdec_jax.jobs import choosing, output
from specdec_jax.jobs.claims import claimed
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.parallel import hosts
from specdec_jax.runs.compare import compare
from specdec_jax.runs.decode import decode

GREEDY = sd.Sampling(temperature=0.0)
OPTIONS = InputOptions(batch_size=4, max_input_len=32, buckets=(32,))
JOB = dict(sampling=GREEDY, max_decode_len=12, max_input_len=32, buckets=(32,), batch_size=4)


class Times:
  """In place of `cost.measure`: a draft pass takes c, a pass over n tokens 1 + slope * (n - 1)."""

  def __init__(self, c=0.1, slope=0.0):
    self.c, self.slope, self.asked = c, slope, []

  def __call__(self, target, drafter, tokens, shapes, sampling, **unused):
    self.asked.append(list(shapes))
    trees = {s: s if isinstance(s, sd.Tree) else sd.Tree.chain(s) for s in shapes}
    return {s: Cost(gamma=t.depth, nodes=t.num_nodes, draft_step=2 * self.c, target_step=2.0,
                    verify_pass=2 * (1 + self.slope * t.num_nodes), target_encoder=1.0, draft_encoder=1.0, spread=0.02)
            for s, t in trees.items()}


@pytest.fixture
def times(monkeypatch):
  """Sets the times that are measured."""
  def set_to(**settings):
    made = Times(**settings)
    monkeypatch.setattr(choosing.cost_lib, 'measure', made)
    return made

  return set_to


@pytest.fixture(scope='module')
def near(target):
  """A draft that agrees with the target often, not always."""
  table = target.params['token_embedder']['embedding']
  noise = 0.5 * np.random.default_rng(1).normal(size=table.shape).astype(np.float32)
  return target.replace(params={**target.params, 'token_embedder': {'embedding': table + noise}})


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl')


@pytest.fixture(scope='module')
def first(target, examples):
  return choosing.first_batches(OPTIONS, OPTIONS.encode(target, examples))


def chosen(target, first, auto, draft, **settings):
  method = Method(drafter=sd.ModelDrafter(draft), auto=auto, max_decode_len=12, **settings)
  return choosing.choose(target, method, first)


def test_a_draft_that_is_the_target_is_worth_the_longest_gamma(target, first, times):
  times(c=0.1)
  assert chosen(target, first, 'gamma', target).tree == sd.Tree.chain(max(choosing.GAMMAS))
  times(c=0.1, slope=0.05)  # gamma 16: 17 / 3.4 tokens a step, gamma 8: 9 / 2.2, and so on
  choice = chosen(target, first, 'gamma', target)
  assert choice.tree == sd.Tree.chain(16)
  assert choice.reason.startswith('alpha 1.000 over ') and choice.reason.endswith(
      'c 0.100 and verify cost 1.80 at gamma 16: 5.00X expected.')


@pytest.mark.parametrize('sampling', [GREEDY, sd.Sampling()], ids=['greedy', 'sampled'])
def test_gamma_is_thm_3_8s(target, near, first, times, sampling):
  times(c=0.02, slope=0.01)
  choice = chosen(target, first, 'gamma', near, sampling=sampling)
  alpha = float(choice.reason.split()[1])
  speed = lambda g: theory.walltime_improvement(alpha, g, 0.02, 1 + 0.01 * g)
  best = max(range(1, 17), key=speed)
  assert choice.tree == sd.Tree.chain(best) and f': {speed(best):.1f}' in choice.reason
  times(c=3.0)
  choice = chosen(target, first, 'gamma', near, sampling=sampling)
  assert choice.tree is None and choice.reason.endswith('X at best, so that plain decoding is faster.')


def test_a_tree_is_the_best_of_its_costs(target, near, first, times):
  measured = times(c=0.02, slope=0.001)
  choice = chosen(target, first, 'tree', near)
  assert [t.num_nodes for t in measured.asked[0]] == list(choosing.NODES)
  by_rank = [float(x.strip(',')) for x in choice.reason.split()[3:7]]
  assert choice.tree.num_nodes > 7 and choice.tree.max_children > 2
  speed = lambda tree: theory.speed_up(theory.expected_tokens(by_rank, tree=tree), tree.depth, 0.02,
                                       1 + 0.001 * tree.num_nodes)
  assert speed(choice.tree) >= max(map(speed, measured.asked[0])) - 0.01
  times(c=0.02, slope=0.5)  # arithmetic binds: a few nodes at most
  few = chosen(target, first, 'tree', near)
  assert few.tree is None or few.tree.num_nodes <= 3
  times(c=0.02, slope=3.0)
  assert chosen(target, first, 'tree', near).tree is None


def test_repeats_that_differ_are_told(target, near, first, times, monkeypatch):
  made = times(c=0.02)
  monkeypatch.setattr(choosing.cost_lib, 'measure', lambda *given, **also: {
      s: dataclasses.replace(c, spread=0.4) for s, c in made(*given, **also).items()})
  assert 'repeats of the timings differ by 40%' in chosen(target, first, 'gamma', near).reason


def texts(directory):
  return [json.loads(line)['tokens'] for line in (directory / 'predictions.jsonl').read_text().splitlines()]


def run(directory, target, examples, draft=None, **changes):
  given = {**JOB, **changes}
  with claimed(str(directory), {k: repr(v) for k, v in given.items()}) as held:
    decode(held, target, examples, draft and sd.ModelDrafter(draft), **given)
  return json.loads((directory / 'summary.json').read_text())['method']


@pytest.mark.parametrize('auto', [pytest.param(dict(gamma='auto'), marks=pytest.mark.long), dict(tree='auto')], ids=str)
def test_a_job_chooses_once_and_its_texts_are_the_targets(target, near, examples, times, tmp_path, capsys, auto):
  run(tmp_path / 'alone', target, examples)
  measured = times(c=0.02, slope=0.01)
  name = run(tmp_path / 'auto', target, examples, near, **auto)
  assert texts(tmp_path / 'auto') == texts(tmp_path / 'alone')
  record = output.read_json(str(tmp_path / 'auto'), 'run.json')['chosen']
  choice = choosing.Choice.of(record)
  assert name.endswith(choice.name) and choice.reason in capsys.readouterr().err
  # What is left after a stop is decoded with the same draft, though the machine has changed.
  path = tmp_path / 'auto' / 'predictions.jsonl'
  path.write_bytes(b''.join(path.read_bytes().splitlines(keepends=True)[:4]))
  times(c=5.0)
  assert run(tmp_path / 'auto', target, examples, near, **auto) == name
  assert len(measured.asked) == 1 and texts(tmp_path / 'auto') == texts(tmp_path / 'alone')


def test_where_plain_decoding_is_faster_a_job_decodes_plainly(target, near, examples, times, tmp_path, capsys):
  times(c=5.0)
  assert run(tmp_path / 'auto', target, examples, near, gamma='auto') == 'target alone'
  assert "gamma = 'auto': plain decoding. alpha 0." in capsys.readouterr().err
  line = json.loads((tmp_path / 'auto' / 'predictions.jsonl').read_text().splitlines()[0])
  assert line['statistics']['drafted'] == 0
  with pytest.raises(OutputError, match="gamma is 'auto' there and 4 here"):
    run(tmp_path / 'auto', target, examples, near, gamma=4)


def test_another_process_takes_what_the_first_has_chosen(target, near, examples, times, tmp_path, monkeypatch):
  choice = choosing.Choice(sd.Tree((-1, -1, 0)), 'as process 0 measured')
  measured, sent = times(), []
  monkeypatch.setattr(hosts, 'index', lambda: 1)
  monkeypatch.setattr(hosts, 'gather', lambda name, value: (sent.append(value), [choice.record, value])[1])
  method = Method(drafter=sd.ModelDrafter(near), auto='tree', sampling=GREEDY)
  found = choosing.settled(target, method, OPTIONS, examples, str(tmp_path))
  assert found.shape == choice.tree and found.auto is None and sent == [None] and not measured.asked


@pytest.mark.long
def test_compare_times_what_a_job_would_choose(target, near, examples, times, tmp_path):
  given = {k: v for k, v in JOB.items() if k != 'sampling'} | dict(samplings=(GREEDY,))
  times(c=0.02, slope=0.001)
  result = compare(str(tmp_path), target, examples, near, gammas=(16, 'auto'), trees=('auto',), **given)
  assert [c['setting'] for c in result['chosen']] == ['gamma', 'tree']
  by_gamma, by_tree = (c['draft'] for c in result['chosen'])
  assert all(e['outputs']['relation'] == 'identical' for e in result['experiments'])
  assert [e['gamma'] for e in result['experiments']] == [16, *({int(by_gamma.split()[1])} - {16}), None]
  text = (tmp_path / 'report.md').read_text()
  assert f"greedy, gamma = 'auto': {by_gamma}. alpha" in text and f"greedy, tree = 'auto': {by_tree}. acc" in text
  times(c=5.0)
  result = compare(str(tmp_path), target, examples, near, gammas=('auto',), **given)
  assert not result['experiments'] and result['chosen'][0]['draft'] == 'plain decoding'
  assert "greedy, gamma = 'auto': plain decoding." in (tmp_path / 'report.md').read_text()


@pytest.mark.parametrize('wrong, words', [
    (dict(gamma='auto', tree=sd.Tree((-1, -1))), "gamma is 'auto' and tree is a Tree; give one of them"),
    (dict(gamma='auto', tree='auto'), "gamma is 'auto' and tree is 'auto'"),
    (dict(gamma='auto', draft=None), "gamma = 'auto' would be ignored: there is no drafter"),
    (dict(tree='auto', verification='block'), "verification is 'block' and the draft is a tree"),
    (dict(tree='auto', lenience=0.5), 'lenience is 0.5 and the draft is a tree'),
    (dict(gamma='auto', compile_only=True), "gamma = 'auto' is chosen on the first inputs"),
    (dict(gamma='fast'), "decode.gamma is 'fast'; it must be a whole number from 1 to .*, or 'auto'"),
    (dict(tree='fast'), "decode.tree is 'fast'; .*, or a tree such as @Tree.*, or 'auto'")], ids=str)
def test_what_cannot_be_chosen_is_refused(target, near, examples, tmp_path, wrong, words):
  with pytest.raises((ValueError, RunFailed), match=words):
    run(tmp_path / 'auto', target, examples, **{'draft': near, **wrong})
