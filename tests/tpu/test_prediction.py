"""The model of traffic and time, against what the design and the paper say of T5-XXL."""

import dataclasses

import pytest

from specdec_jax.tpu import tables
from specdec_jax.tpu.chips import CHIPS, extent, get_chip, num_devices
from specdec_jax.tpu.prediction import Deployment, holds, on_slice, predict, smallest_slice
from specdec_jax.tpu.shapes import abstract_drafter, abstract_model, num_bytes
from specdec_jax.tpu.traffic import Assumptions


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
  assert predict(free, 7).c == pytest.approx(bytes_of(free.draft_pass(7)) / bytes_of(free.target_pass(1, 7)))


def test_rows_of_table_2_agree_with_thm_3_8_in_the_paper():
  for row in tables.beside_the_paper():
    assert row['speed_up'] == pytest.approx(row['paper_predicted'], abs=0.08), row


def test_large_batches_pay_less():
  at = predict(deployment(), 7, 0.75)
  assert at.verify_cost == pytest.approx(1)
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
