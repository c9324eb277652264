"""What heads on T5-XXL hold, read and compute, by arithmetic from their sizes."""

import pytest

from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.tpu import drafting, tables
from specdec_jax.tpu.chips import get_chip
from specdec_jax.tpu.prediction import Deployment, best_tree, held_bytes, predict
from specdec_jax.tpu.shapes import abstract_drafter, abstract_model, num_bytes
from specdec_jax.tree import Tree

XXL = abstract_model('t5_1_1_xxl')
E, V, W, D, F = 4096, 32128, 1024, 16 * 64, 2816
LOGITS = E * V


def deployment(kind, **changes):
  heads = HeadsConfig(kind=kind, width=W, count=4, num_heads=16, head_dim=64, mlp_dim=F)
  return Deployment(**{
      'target': XXL, 'drafter': abstract_drafter(heads, target=XXL), 'chip': get_chip('v4'), 'topology': '1x1x1',
      'batch': 1, 'input_length': 128, 'max_decode_len': 128, **changes})


def test_a_layer_reads_itself_and_the_target_s_vocabulary_product():
  work = deployment('layer').draft_pass(7)
  kernels = 2 * E * W + 6 * W * D + 3 * W * F + W * E  # join, attentions without the encoder's keys and values, wi, wo
  beside = 4 * (2 * E + 4 * W + 32 * 16)  # norms of what it joins and its own, in float32, and the relative bias
  assert work.weights == pytest.approx(2 * (kernels + LOGITS) + beside, abs=2 * 32 * 16)
  assert work.caches == 2 * 2 * (137 + 128) * D
  assert work.flops == pytest.approx(2 * (kernels + LOGITS + 2 * (137 + 128) * D), rel=1e-4)
  assert work.layers == 1
  assert deployment('layer', batch=8).draft_pass(7).flops == 8 * work.flops


def test_the_vocabulary_product_is_split_with_the_target_and_heads_are_not():
  one, four = deployment('layer').draft_pass(7), deployment('layer', topology='2x2x1').draft_pass(7)
  assert one.weights - four.weights == 2 * LOGITS * 3 // 4
  at = lambda topology: held_bytes(deployment('layer', topology=topology, split_draft=True), 7)
  target = num_bytes(XXL.params) + deployment('layer').target_pass(1, 7).caches
  assert at('1x1x1') - at('2x2x1') == pytest.approx(target * 3 / 4)


def test_parallel_heads_draft_in_one_pass():
  at = deployment('parallel')
  four, two = at.draft_pass(4, 4), at.draft_pass(2, 2)
  assert four.weights - two.weights == 2 * 2 * (2 * E * W + W * E)  # two heads
  assert two.flops == 2 * 2 * (2 * E * W + W * E + LOGITS)
  assert four.caches == 0
  predicted = predict(at, 4, 0.75)
  assert predicted.drafting == pytest.approx(at.seconds(four, of_draft=True))
  assert predicted.c == pytest.approx(predicted.drafting / 4 / predicted.target_step)
  assert predicted.speed_up == pytest.approx(predicted.tokens_per_call * predicted.target_step / (
      predicted.drafting + predicted.verify_pass))


def test_the_passes_for_a_draft():
  layer, parallel = deployment('layer').drafter, deployment('parallel').drafter
  assert drafting.tokens_by_pass(parallel, Tree.chain(3)) == (3,)
  assert drafting.tokens_by_pass(layer, Tree.chain(3)) == (4, 1, 1)  # what was committed is fed again
  assert drafting.tokens_by_pass(layer, Tree.full((3, 2))) == (3, 3)
  assert drafting.tokens_by_pass(abstract_drafter('t5_1_1_small'), Tree.chain(3)) == (2, 1, 1)


def test_a_table_holds_no_weights_and_takes_no_pass():
  table = abstract_drafter(NGramDrafter.fit([[2, 3, 1]], num_tokens=V, order=1))
  assert not drafting.weights(table) and drafting.configuration(table) is None
  assert deployment('layer', drafter=table).draft_pass(4) is None


def test_no_more_is_planned_than_there_are_parallel_heads():
  at = deployment('parallel')
  assert predict(at, 4, 0.9).best_gamma == 4
  assert best_tree(at, 63, (0.9, 0.02), free=True).depth <= 4
  heads = HeadsConfig(kind='parallel', width=W, count=4)
  rows = tables.grid('t5_1_1_xxl', heads, 0.75, (3, 5, 7), (1,), ('v4',))
  assert [row['gamma'] for row in rows] == [3]
