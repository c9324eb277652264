"""The model of traffic and time, against what the design and the paper say of T5-XXL."""

import dataclasses

import pytest

from specdec_jax.analysis import theory
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import tables
from specdec_jax.tpu.acceptance import acceptance_by_rank
from specdec_jax.tpu.chips import CHIPS, extent, get_chip, num_devices
from specdec_jax.tpu.prediction import (
  Deployment,
  best_tree,
  holds,
  on_slice,
  predict,
  smallest_slice,
  speed_up_on_v4,
)
from specdec_jax.tpu.shapes import abstract_drafter, abstract_model, num_bytes
from specdec_jax.tpu.traffic import Assumptions
from specdec_jax.tree import Tree


def deployment(draft='t5_1_1_small', chip='v4', **changes):
  return Deployment(**{
      'target': abstract_model('t5_1_1_xxl'), 'drafter': abstract_drafter(draft), 'chip': get_chip(chip),
      'topology': '1x1x1', 'batch': 1, 'input_length': 128, 'max_decode_len': 128, **changes})


def test_weights_that_a_step_reads():
  """The decoder of T5-XXL without the cross-attention's keys and values: 11.14 GB."""
  work = deployment().target_pass(1, 7)
  layer = 6 * 4096 * 4096 + 3 * 4096 * 10240
  norms = 4 * (24 * 3 * 4096 + 4096) + 4 * 64 * 32
  assert work.weights == 2 * (24 * layer + 4096 * 32128) + norms
  assert work.caches == 2 * 2 * 24 * (137 + 128) * 4096
  assert deployment().target_pass(8, 7).flops == 8 * work.flops
  assert deployment(batch=4).target_pass(1, 7).caches == 4 * work.caches


def test_tied_logits_read_the_embedding():
  tied = deployment(target=abstract_model('t5_1_0_11b')).target_pass(1, 7)
  untied = deployment(target=abstract_model(dataclasses.replace(
      abstract_model('t5_1_0_11b').config, logits_via_embedding=False))).target_pass(1, 7)
  assert tied.weights == untied.weights


@pytest.mark.parametrize('draft, c', [
    ('t5_1_1_small', 0.019), ('t5_1_1_base', 0.041), ('t5_1_1_large', 0.107)])
def test_c_is_the_paper_s(draft, c):
  assert predict(deployment(draft), 7).c == pytest.approx(c, abs=0.001)


def test_without_the_fixed_cost_c_is_the_ratio_of_bytes():
  free = deployment(assumptions=Assumptions(layer_seconds=0))
  bytes_of = lambda work: work.weights + work.caches
  assert predict(free, 7).c == pytest.approx(bytes_of(free.draft_pass(7)) / bytes_of(free.target_pass(1, 0)))


def test_rows_of_table_2_agree_with_thm_3_8_in_the_paper():
  for row in tables.beside_the_paper():
    assert row['speed_up'] == pytest.approx(row['paper_predicted'], abs=0.08), row


def test_large_batches_pay_less():
  at = predict(deployment(), 7, 0.75)
  assert at.verify_cost == pytest.approx(1, abs=1e-3)
  assert at.pays_less_from_batch == 64
  rows = tables.grid('t5_1_1_xxl', 't5_1_1_small', 0.75, (7,), (1, 16, 64, 256), ('v4',))
  speeds = [r['speed_up'] for r in rows]
  assert speeds == sorted(speeds, reverse=True) and speeds[-1] < 1.5 < speeds[0]


def test_batches_that_do_not_fit_are_not_spoken_of():
  """T5-XXL's caches: 0.107 GB a row; beside 22.4 GB of weights a v5e's 2x2 has room for a few hundred rows."""
  at = smallest_slice(deployment(chip='v5e', topology='1x1'), 7)
  assert at.topology == '2x2' and not holds(deployment(chip='v5e', topology='1x1'), 7)
  assert holds(dataclasses.replace(at, batch=64), 7) and not holds(dataclasses.replace(at, batch=1024), 7)
  assert smallest_slice(deployment(chip='v5e', topology='1x1', batch=100_000), 7) is None
  rows = tables.grid('t5_1_1_xxl', 't5_1_1_small', 0.75, (3, 7), (1, 100_000), ('v5e',))
  assert [r['topology'] for r in rows] == ['2x2', '2x2', None, None]
  assert rows[0]['speed_up'] > 1 and rows[2]['speed_up'] is rows[3]['c'] is None
  assert '| v5e  | 2x2            |      1 |' in tables.grid_markdown(rows)
  assert tables.beside_the_paper('v5e', '1x1') == [] and len(tables.beside_the_paper('v5e', '2x2')) == 12


def test_best_gamma_is_the_best():
  at = predict(deployment(), 7, 0.75)
  near = [predict(deployment(), g, 0.75).speed_up for g in (at.best_gamma - 1, at.best_gamma, at.best_gamma + 1)]
  assert near[1] == max(near)
  assert predict(deployment('t5_1_1_xxl'), 7, 0.5).best_gamma == 0  # a draft as slow as its target


def test_more_devices_share_the_target_and_pay_for_collectives():
  one, four = predict(deployment(), 7), predict(deployment(topology='2x2x1'), 7)
  assert one.target_step / 4 < four.target_step < one.target_step
  assert four.draft_step == one.draft_step  # held whole by each


def test_chips():
  assert extent('2x4') == (2, 4, 1) and num_devices(CHIPS['tpu7x'], '2x2x1') == 8
  with pytest.raises(ValueError, match="chip is 'v9'; it must be one of v4"):
    get_chip('v9')
  with pytest.raises(ValueError, match="topology is '4'"):
    extent('4')


def test_models_by_name():
  assert num_bytes(abstract_model('t5_1_1_xxl').params) == pytest.approx(22.27e9, rel=1e-3)
  assert abstract_model('embedded:ende/draft').config.dtype == 'bfloat16'
  assert abstract_model('gpt2_xl').config.num_heads == 25
  with pytest.raises(ValueError, match="no model 't5_xxxl'.*t5_1_1_xxl"):
    abstract_model('t5_xxxl')


def test_a_prompt_lies_in_the_cache():
  """GPT-2 XL reads all its weights but the table of positions; keys and values of prompt and text."""
  work = deployment('gpt2', target=abstract_model('gpt2_xl')).target_pass(1, 4)
  bias = 4 * (48 * (9 + 4) * 1600 + 2 * 1600)
  assert work.weights == 2 * (48 * 12 * 1600 ** 2 + 50257 * 1600) + bias
  assert work.caches == 2 * 2 * 48 * (128 + 128 + 5) * 1600


def test_a_slice_takes_as_many_parts_as_divide():
  """GPT-2 XL's 25 heads do not divide by the two devices of one tpu7x chip."""
  at = on_slice(deployment('gpt2', 'tpu7x', target=abstract_model('gpt2_xl'), batch=4), '1x1x1')
  assert (at.devices, at.parts, at.data, at.rows) == (2, 1, 2, 2)
  assert on_slice(deployment(), '2x2x2').parts == 8


def test_grid_and_picture(tmp_path):
  rows = tables.grid('t5_1_1_xl', 't5_1_1_small', 0.7, (3, 7), (1, 8), ('v4', 'v5e'))
  text = tables.grid_markdown(rows)
  assert len(text.splitlines()) == 2 + 4 and 'gamma 7' in text
  tables.plot(rows, str(tmp_path / 'plan.png'))
  assert (tmp_path / 'plan.png').stat().st_size > 1000


RANKS = acceptance_by_rank(0.75)


def test_what_is_assumed_of_ranks():
  assert RANKS[:4] == pytest.approx((0.75, 0.098, 0.052, 0.022), abs=0.015)  # another sample of the same pair's texts
  assert 0.9 < sum(RANKS) < 1 and acceptance_by_rank(1.0)[1:] == (0.0,) * 15
  warm = acceptance_by_rank(0.62, Sampling())
  assert warm[0] == 0.62 and warm[1:] != acceptance_by_rank(0.62)[1:]
  assert acceptance_by_rank(0.62, Sampling(top_k=1)) == acceptance_by_rank(0.62)
  with pytest.raises(ValueError, match='alpha is 1.5; it must lie in'):
    acceptance_by_rank(1.5)


def test_the_formula_with_a_v4_s_costs():
  at = predict(deployment(), 7, 0.75)
  assert speed_up_on_v4(theory.expected_tokens(0.75, 7), 7) == pytest.approx(at.speed_up)
  assert at.speed_up == pytest.approx(theory.speed_up(at.tokens_per_call, 7, at.c, at.verify_cost), rel=1e-4)
  tree = Tree.full((4, 3, 2))
  of_tree = predict(deployment(), tree, RANKS)
  assert speed_up_on_v4(of_tree.tokens_per_call, tree) == pytest.approx(of_tree.speed_up)
  assert of_tree.tokens_per_call == pytest.approx(theory.expected_tokens(RANKS, tree=tree))


def test_table_2_s_first_row_with_a_tree():
  """63 nodes: 64 tokens a pass, which a v4 does in what one takes; the draft's passes are one a level."""
  at = deployment()
  chain = predict(at, 7, RANKS)
  speeds = [predict(at, best_tree(at, nodes, RANKS, free=True), RANKS).speed_up for nodes in (7, 15, 31, 63, 127)]
  assert chain.speed_up == pytest.approx(3.17, abs=0.01) and speeds == sorted(speeds)
  assert speeds[1] > 3.5 and speeds[2] > 4.0 and 4.5 <= speeds[3] < 4.8
  tree = best_tree(at, 63, RANKS, free=True)
  found = predict(at, tree, RANKS)
  assert tree.num_nodes == 63 and found.verify_cost == pytest.approx(1, abs=0.01) and found.alpha == 0.75
  assert found.drafting == pytest.approx(tree.depth * found.draft_step, rel=1e-3)


def test_larger_trees_are_dear_where_arithmetic_is():
  """A v4 does 220 or so tokens in the time that reading the weights takes."""
  cost = lambda nodes, **changes: predict(deployment(**changes), Tree.chain(nodes)).verify_cost
  assert cost(127) < 1.02 and 1.05 < cost(255) < 1.2 and cost(63, batch=16) > 3
  assert best_tree(deployment(batch=64), 63, RANKS).num_nodes < 7
  assert best_tree(deployment(batch=64), 63, RANKS, free=True).num_nodes == 63


def test_a_table_drafts_for_nothing():
  found = predict(deployment(None), Tree.full((3, 2)), RANKS)
  assert found.c == found.drafting == 0 and found.speed_up == pytest.approx(
      found.tokens_per_call / found.verify_cost)
