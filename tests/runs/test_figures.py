import json

import pytest

import specdec_jax as sd
from specdec_jax.analysis.cost import Cost
from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.runs import figures as figures_lib
from specdec_jax.sampling import Sampling

SETTINGS = dict(sampling=Sampling(temperature=0.0), gammas=(3, 2), max_decode_len=12,
                max_input_len=32, batch_size=3)
TREE = sd.Tree((-1, -1, -1, 0, 0, 1))
EXPERIMENT = {
    'sampling': {'temperature': 0.0}, 'gamma': 3, 'alpha': 0.7, 'c': 0.03, 'c_hat': 0.01,
    'verify_cost': 1.2, 'tokens_per_call': 2.0, 'speed_up': 1.5, 'target_calls': 10,
    'accepted_by_position': [7, 4, 2],
    'drafted_by_position': [10, 9, 9]}


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl', limit=4)


@pytest.fixture(scope='module')
def drawn(target, draft, examples, tmp_path_factory):
  """What the run wrote, and its directory."""
  directory = tmp_path_factory.mktemp('figures')
  (directory / 'report.json').write_text(json.dumps({'drafter': 'd', 'experiments': [EXPERIMENT]}))
  parts = dict(draft_step=0.001, target_step=0.01, verify_pass=0.012, target_encoder=0.02, draft_encoder=0.002)
  costs = {**{g: Cost(gamma=g, **parts) for g in SETTINGS['gammas']}, TREE: Cost(gamma=2, nodes=6, **parts)}
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(figures_lib.cost_lib, 'measure', lambda *unused, **also: costs)
    return figures_lib.figures(
        str(directory), target, examples, ModelDrafter(draft), example=1, shown_examples=2, tree=TREE,
        reports=(str(directory / 'report.json'),), **SETTINGS), directory


def test_every_figure_is_written(drawn):
  written, directory = drawn
  assert set(written) == {*(f'figure_{i}' for i in range(1, 6)), 'acceptance_by_position'}
  for paths in written.values():
    assert [path.rsplit('.')[-1] for path in paths] == ['png', 'svg']
  for path in directory.iterdir():
    assert path.stat().st_size > 100
  assert len(list(directory.iterdir())) == 2 * 6 + 2


def test_the_page_shows_the_inputs_that_were_asked_for(drawn, examples):
  page = (drawn[1] / 'trace.html').read_text(encoding='utf-8')
  assert page.count('specdec-trace') == 2 and page.startswith('<!doctype html>')
  assert f'<b>{examples[1].text}</b>' in page and f'<b>{examples[2].text}</b>' in page
  assert f'<b>{examples[1].text}</b>' in page.splitlines()[1]


def test_a_tree_takes_the_place_of_the_first_gamma(drawn, target, draft, examples):
  page = (drawn[1] / 'trace.html').read_text(encoding='utf-8')
  r = sd.speculative_decode(target, draft, target.encode([examples[1].text]), tree=TREE, max_decode_len=12,
                            sampling=SETTINGS['sampling'])
  first = page.splitlines()[1]
  assert first.count('<li>') == r.stats.target_calls[0]
  assert first.count('class="rejected"') > first.count('<li>')  # all three candidates of a place
  assert '6 nodes' in (drawn[1] / 'figure_5.svg').read_text()


def test_the_report_is_on_the_curves(drawn):
  assert 'measured' in (drawn[1] / 'figure_2.svg').read_text()
  acceptance = (drawn[1] / 'acceptance_by_position.svg').read_text()
  assert 'temperature 0, d' in acceptance and 'powers of' in acceptance


@pytest.mark.parametrize('wrong, words', [
    (dict(formats=('pdf',)), "it must be 'png' or 'svg'"),
    (dict(gammas=()), 'figures.gammas is empty; it needs at least one value'),
    (dict(example=4), r'figures.example is 4, but there are 4 inputs \(0 to 3\)'),
    (dict(reports=('missing.json',)), "no report at 'missing.json'"),
])
def test_bad_settings_are_refused_before_anything_runs(wrong, words, target, draft, examples, tmp_path):
  with pytest.raises((ValueError, FileNotFoundError), match=words):
    figures_lib.figures(str(tmp_path), target, examples, ModelDrafter(draft), **{**SETTINGS, **wrong})
  assert not list(tmp_path.iterdir())
