"""A pass over a tree gives each node the logits of its own text, teacher-forced."""

import jax
import jax.numpy as jnp
import numpy as np
import tiny

# Node, parent and token of two texts that branch; the slots below scatter them.
PARENTS = [-1, 0, 0, 1, 1, 2, 4]
TOKENS = [0, 5, 9, 5, 7, 3, 11]
SLOTS = 16


def path(node):
  return [] if node < 0 else [*path(PARENTS[node]), node]


def fed_at(slot_of):
  """key_positions [1, SLOTS] and visible [1, M, SLOTS] for nodes in these slots."""
  key_positions, visible = np.zeros((1, SLOTS), np.int32), np.zeros((1, len(TOKENS), SLOTS), bool)
  for node, slot in enumerate(slot_of):
    key_positions[0, slot] = len(path(node)) - 1
    visible[0, node, [slot_of[n] for n in path(node)]] = True
  return key_positions, visible


def test_every_node_sees_its_own_text():
  """With what differs most from v1.1, which the searches are tested with: a bias in every layer
  and tied logits."""
  model = tiny.random_t5(
      0, relative_bias_per_layer=True, num_decoder_layers=2, logits_via_embedding=True)
  tokens = tiny.inputs(1)
  positions = np.array([[len(path(n)) - 1 for n in range(len(TOKENS))]], np.int32)
  nodes = np.array([TOKENS], np.int32)

  def passes(model, tokens):
    """The first four nodes, three of them copied elsewhere, then the others."""
    cache = model.prefill(tokens, SLOTS)
    key_positions, visible = fed_at([4, 5, 6, 7, 8, 9, 10])
    early, cache = model.tree_step(
        cache, nodes[:, :4], positions[:, :4], 4, key_positions, visible[:, :4])
    cache = model.tree_copy(cache, jnp.array([[6, 4, 5]]), jnp.array([1]))
    key_positions, visible = fed_at([2, 3, 1, 7, 10, 11, 12])
    late, _ = model.tree_step(
        cache, nodes[:, 4:], positions[:, 4:], 10, key_positions, visible[:, 4:])
    return jnp.concatenate([early, late], axis=1)[0]

  logits = jax.jit(passes)(model, tokens)
  texts = np.array([[*(TOKENS[n] for n in path(node)), *[0] * 4][:4]
                    for node in range(len(TOKENS))], np.int32)
  wanted = model.logits(np.tile(tokens, (len(TOKENS), 1)), texts)
  wanted = np.asarray(wanted)[np.arange(len(TOKENS)), positions[0]]
  np.testing.assert_allclose(logits, wanted, atol=2e-4, rtol=1e-4)
