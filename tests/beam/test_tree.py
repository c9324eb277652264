"""Whom the beams continue, against paths written out step by step."""

import jax
import numpy as np

from specdec_jax.beam import state as beam_state, tree as beam_tree

LAYOUT = beam_tree.Layout(width=3, drafted=4, gamma=2, max_decode_len=6)


def test_lineage_names_the_ancestors_of_the_live_and_the_previous_beams():
  rng = np.random.default_rng(0)
  beams = beam_state.start(np.zeros(2, np.int32), 3, 6)
  lineage = beam_tree.Lineage.start(2, LAYOUT)
  descend = jax.jit(lambda lineage, beams, parent: lineage.descend(beams, parent))
  live = [[[], [], []], [[], [], []]]  # for every beam the beams at positions 0, 1, ...
  for step in range(5):
    tokens = rng.integers(2, 9, (2, 3, 7)).astype(np.int32)
    beams = beams.replace(step=np.full(2, step, np.int32), tokens=tokens)
    parent = rng.integers(0, 3, (2, 3)).astype(np.int32)
    lineage = descend(lineage, beams, parent)
    previous, live = live, [[live[b][k] + [k] for k in parent[b].tolist()] for b in range(2)]
    # Row 0 stands before the start.
    np.testing.assert_array_equal(lineage.live[:, :, 1:step + 2], live)
    np.testing.assert_array_equal(lineage.previous[:, :, 1:step + 1], np.reshape(previous, (2, 3, step)))
    np.testing.assert_array_equal(lineage.last, tokens[:, :, step])
    np.testing.assert_array_equal(lineage.parent, parent)


def test_the_layout_has_room_for_a_block_kept_at_the_last_position():
  assert LAYOUT.size == len(LAYOUT.depth) == 2 * 3 + 2 * 4
  assert LAYOUT.level(1) == 6 and LAYOUT.level(3) == LAYOUT.size
  last_row = (LAYOUT.max_decode_len + 1) + LAYOUT.gamma
  assert last_row == LAYOUT.rows - 1 and LAYOUT.slot == LAYOUT.rows * 3
