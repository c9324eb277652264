"""What the TPU compiler makes of a pass over a tree, and what the planner says of trees; needs libtpu, no TPU."""

import dataclasses
import json
import pathlib

import gin
import pytest

import specdec_jax as sd
import specdec_jax.cli.configurables
from specdec_jax import tpu
from specdec_jax.cli import gin_config
from specdec_jax.models.config import T5Config
from specdec_jax.reports import paper
from specdec_jax.runs import plan_trees as run
from specdec_jax.tpu import compile as compile_lib, tables, topology as topology_lib, tree_tables
from specdec_jax.tpu.tables import PAPER_DRAFTS

pytestmark = pytest.mark.skipif(
    not topology_lib.has_compiler(),
    reason='the TPU compiler is in the package libtpu (Linux on x86-64), which is not installed')

# A layer of T5-XXL: too wide for its kernels to stay on the chip from pass to pass.
LAYER = T5Config(vocab_size=256, emb_dim=4096, num_heads=64, mlp_dim=10240, num_encoder_layers=1, num_decoder_layers=1)
SMALL = T5Config(vocab_size=256, emb_dim=64, num_heads=1, mlp_dim=64, num_encoder_layers=1, num_decoder_layers=1)


def kernels_read(plan):
  """How often an iteration reads each of the target's kernels."""
  return {path: times for path, times in plan.iteration.reads.items()
          if path.startswith('target/') and not path.endswith('embedding')}


@pytest.mark.long
def test_a_pass_over_64_tokens_reads_each_weight_once_and_copies_no_cache():
  found = tpu.plan(LAYER, sd.RandomDrafter(), tree=sd.Tree.full((3, 20)), input_length=32, max_decode_len=32,
                   passes=False)
  assert found.nodes == 63 and found.gamma is None and found.deployment.cache_length(63) == 1 + 32 + 64
  reads = kernels_read(found)
  assert len(reads) > 5 and set(reads.values()) == {1.0} and all('decoder' in path for path in reads)
  assert found.iteration.copied_caches == () and found.iteration.rewritten == () and found.warnings == ()


@pytest.mark.long
def test_t5_xxl_with_63_nodes_on_one_v4():
  """Table 2's first row, from the program compiled for the paper's chip."""
  found = tpu.plan(nodes=63, alpha=0.75)
  reads = kernels_read(found)
  assert found.fits and found.warnings == () and found.nodes == 63
  assert len(reads) == 24 * 9 + 1 and set(reads.values()) == {1.0}
  assert found.iteration.bytes_read('target') == pytest.approx(found.traffic['verify_pass'].work.weights, rel=1e-3)
  assert found.memory.temporaries + found.memory.caches <= 0.35e9 and found.memory.peak < 22.9e9
  assert found.traffic['verify_pass'].counted_bytes < 1.2 * found.traffic['target_step'].counted_bytes
  assert found.predicted.speed_up >= 4.5 and found.predicted.verify_cost < 1.01
  text = tables.markdown(found)
  assert 'tree of 63 nodes' in text and 'speed-up of the chain with gamma 7' in text and '3.17X' in text
  assert 'acceptance by rank, assumed' in text and json.loads(json.dumps(tables.to_json(found)))['tree'][0] == -1


@pytest.mark.parametrize('setting, error', [
    (dict(nodes=7), 'nodes is 7; which tree of so many is the fastest depends on alpha'),
    (dict(nodes=0, alpha=0.5), 'nodes is 0; it must be a whole number'),
    (dict(nodes=7, gamma=3, alpha=0.5), 'nodes is 7, and there is a gamma or a tree too'),
    (dict(tree=sd.Tree((-1, -1)), gamma=3), 'gamma is 3 and there is a tree too'),
    (dict(tree='x'), "tree is 'x'; it must be a whole number"),
    (dict(alpha=0.5, acceptance_by_rank=(0.6, 0.1)), 'alpha is 0.5, and the first of acceptance_by_rank 0.6'),
    (dict(acceptance_by_rank=(0.6, 0.7)), 'the sum of acceptance_by_rank')])
def test_mistakes_are_told_before_anything_is_compiled(setting, error, monkeypatch):
  monkeypatch.delattr(compile_lib, 'decode_program')
  with pytest.raises(ValueError, match=error):
    tpu.plan(SMALL, SMALL, **setting)


PAIRS, PLACES = (('t5_1_1_small', 0.75), ('t5_1_1_large', 0.82)), (('v4', '1x1x1'), ('v5e', '1x1'))


def test_the_table_of_trees(monkeypatch, tmp_path, capsys):
  """One row of it compiled (here a model of one layer stands in), the others by sizes."""
  whole = tpu.plan(SMALL, sd.RandomDrafter(), nodes=3, alpha=0.75, input_length=8, max_decode_len=8, passes=False)
  asked = []
  monkeypatch.setattr(run, 'compile_plan', lambda *args, **kwargs: asked.append((args, kwargs)) or whole)
  result = run.plan_trees(str(tmp_path), pairs=PAIRS, places=PLACES, batches=(1, 64), nodes=(3, 63),
                          compiled=(('t5_1_1_small', 'v4', '1x1x1', 1, 3),))
  (args, kwargs), = asked
  assert args == ('t5_1_1_xxl', 't5_1_1_small', 'v4', '1x1x1') and (kwargs['nodes'], kwargs['alpha']) == (3, 0.75)
  assert len(result['cells']) == 2 * 2 * 2 * (1 + 2 + 1) and json.loads((tmp_path / 'trees.json').read_text())
  text = (tmp_path / 'trees.md').read_text()
  assert text == capsys.readouterr().out[:-1] and (tmp_path / 'trees.png').stat().st_size > 1000
  of = {(r['draft'], r['chip'], r['batch'], r['kind']): r for r in result['cells']}
  assert of['t5_1_1_small', 'v4', 1, 63]['speed_up'] > 4.5 > of['t5_1_1_small', 'v4', 64, 63]['speed_up']
  assert of['t5_1_1_small', 'v5e', 1, 63]['speed_up'] is None  # 16 GB
  best = of['t5_1_1_small', 'v4', 64, 'fastest']
  assert best['nodes'] < 7 and best['speed_up'] > of['t5_1_1_small', 'v4', 64, 'chain']['speed_up']
  first = next(line for line in text.splitlines() if line.startswith('| T5-small'))
  assert first.count('X*') == 1 and first.split('|')[6].strip().endswith('X*')  # of the one compiled
  assert '| v5e 1x1  |     1 |' in text and '0.750, 0.111, 0.046' in text
  memory = dataclasses.replace(whole.memory, temporaries=None, peak=None)
  refused = dataclasses.replace(whole, fits=False, memory=memory)
  assert ' refused |' in tree_tables.compiled_markdown([tree_tables.compiled(refused, 't5_1_1_small')])


def test_its_configuration(monkeypatch, tmp_path):
  monkeypatch.setattr(run, 'compile_plan', lambda *args, **kwargs: pytest.fail('compiled'))
  config = pathlib.Path(__file__).resolve().parents[2] / 'configs' / 'plan' / 't5_xxl_trees.gin'
  gin_config.parse([str(config)], [f'OUTPUT_DIR = {str(tmp_path)!r}', 'main.compilation_cache_dir = None',
                                   'plan_trees.batches = (1,)', 'plan_trees.nodes = (63,)'])
  compiled = gin.query_parameter('plan_trees.compiled')
  pairs, places = gin.query_parameter('plan_trees.pairs'), gin.query_parameter('plan_trees.places')
  assert pairs == tuple((PAPER_DRAFTS[e.draft], e.alpha) for e in paper.TABLE_2[:3])
  assert {c[0] for c in compiled} <= set(dict(pairs)) and {c[1:3] for c in compiled} <= set(places)
  gin_config.parse([str(config)], [f'OUTPUT_DIR = {str(tmp_path)!r}', 'main.compilation_cache_dir = None',
                                   'plan_trees.batches = (1,)', 'plan_trees.nodes = (63,)', 'plan_trees.compiled = ()'])
  gin.get_configurable('main')()
  cells = json.loads((tmp_path / 'trees.json').read_text())['cells']
  assert len(cells) == 3 * 3 * 3 and cells[1]['nodes'] == 63 and cells[1]['speed_up'] >= 4.5


def test_a_draft_without_an_alpha_is_told(tmp_path):
  with pytest.raises(ValueError, match="plan_trees.compiled has the draft 't5_1_1_base', which plan_trees.pairs has"):
    run.plan_trees(str(tmp_path), pairs=PAIRS, compiled=(('t5_1_1_base', 'v4', '1x1x1', 1, 3),))
  with pytest.raises(ValueError, match=r"plan_trees.places\[0\] is \('v4',\); it must have 2 items"):
    run.plan_trees(str(tmp_path), places=(('v4',),))


def test_table_2_with_trees():
  rows = tree_tables.beside_the_paper((15, 63))
  assert len(rows) == 12 and rows[0]['chain'] == pytest.approx(3.17, abs=0.01) and rows[0]['trees'][63] >= 4.5
  for row in rows:
    assert row['chain'] < row['trees'][15] < row['trees'][63]
  text = tree_tables.paper_markdown(rows)
  assert len(text.splitlines()) == 2 + 12 and '63 nodes' in text
