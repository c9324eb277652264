"""A pass over a tree gives each node the logits of its own text, and its branches can be kept: every family."""

import functools

import families
import jax
import jax.numpy as jnp
import numpy as np
import pytest

# Two texts behind each row's own prefix, which branch: each node's parent and token.
PARENTS = [-1, 0, 0, 1, 1, 2, 4]
TOKENS = np.array([[0, 5, 9, 5, 7, 3, 11], [1, 2, 3, 4, 5, 6, 7], [9, 9, 8, 8, 7, 7, 6]], np.int32)
PREFIXES = np.random.default_rng(3).integers(0, 19, (3, 4)).astype(np.int32)
LENGTHS = np.array([4, 2, 1], np.int32)
NODES, SLOTS, NEAR = len(PARENTS), 16, 2e-4
NAMES = ('t5 v1.1', 'umt5', 'gpt2')
BROKEN = [1e3, np.nan, np.inf, -np.inf]


def path(node):
  return [] if node < 0 else [*path(PARENTS[node]), node]


DEPTHS = np.array([len(path(n)) - 1 for n in range(NODES)])


def text(row, node):
  return [*PREFIXES[row, :LENGTHS[row]], *(TOKENS[row, n] for n in path(node))]


FOLLOW = np.array([2, 3, 4], np.int32)  # what is fed after the branch that is kept
KEPT = [6, 3, 5]  # its last node, in each row


@functools.cache
def wanted(name):
  """By one-token passes: logits after each node of each row [3, NODES, V], and after FOLLOW [3, V]."""
  model = families.make(name)
  texts = [(row, text(row, node)) for row in range(3) for node in range(NODES)]
  texts += [(row, text(row, leaf) + [int(FOLLOW[row])]) for row, leaf in enumerate(KEPT)]
  rows, most = [row for row, _ in texts], max(len(words) for _, words in texts)
  padded = np.array([(words + [0] * most)[:most] for _, words in texts], np.int32)
  cache = families.prefill(model, tuple(x[rows] for x in families.inputs(model, 3)), len(rows), most)
  out = []
  for i in range(most):
    logits, cache = families.step(model, cache, padded[:, i:i + 1], np.full(len(rows), i, np.int32))
    out.append(np.asarray(logits)[:, 0])
  last = np.stack(out)[[len(words) - 1 for _, words in texts], np.arange(len(rows))]
  return last[:-3].reshape(3, NODES, -1), last[-3:]


def sight(slot_of):
  """key_positions [B, SLOTS] and visible [B, NODES, SLOTS], where node i of row b stands in slot_of[b][i]."""
  key_positions = np.full((3, SLOTS), 999, np.int32)
  visible = np.zeros((3, NODES, SLOTS), bool)
  for row, length in enumerate(LENGTHS):
    key_positions[row, :length] = np.arange(length)
    visible[row, :, :length] = True
    for node in range(NODES):
      key_positions[row, slot_of[row][node]] = length + DEPTHS[node]
      visible[row, node, [slot_of[row][n] for n in path(node)]] = True
  return key_positions, visible


def start(model, garbage):
  """A cache that holds the prefixes and garbage everywhere else."""
  cache = families.prefill(model, families.inputs(model, 3), 3, SLOTS)
  _, cache = families.step(model, cache, PREFIXES, np.zeros(3, np.int32))
  return families.poisoned(cache, np.arange(SLOTS) >= LENGTHS[:, None], garbage)


@pytest.mark.parametrize('garbage', BROKEN)
@pytest.mark.parametrize('name', NAMES)
def test_every_node_sees_its_own_text_and_a_branch_can_be_kept(name, garbage):
  model, cache = families.make(name), start(families.make(name), garbage)
  slots = LENGTHS + np.array([0, 3, 8], np.int32)  # anywhere after the prefix, in each row elsewhere
  logits, cache, block = families.tree_step(
      model, cache, TOKENS, LENGTHS[:, None] + DEPTHS, slots, *sight(slots[:, None] + np.arange(NODES)))
  of_nodes, of_follow = wanted(name)
  np.testing.assert_allclose(logits, of_nodes, atol=NEAR, rtol=1e-4)
  assert np.abs(of_nodes[0, 3] - of_nodes[0, 1]).max() > 0.1  # one token after two texts

  # Row by row another branch is kept: its nodes go to the places after the prefix, whatever else is there.
  kept = [path(leaf) for leaf in KEPT]
  nodes = np.array([(p + [0] * 4)[:4] for p in kept], np.int32)
  cache = families.commit(model, cache, block, nodes, LENGTHS)
  ends = (LENGTHS + [len(p) for p in kept]).astype(np.int32)
  cache = families.poisoned(cache, np.arange(SLOTS) >= ends[:, None], garbage)
  logits, _ = families.step(model, cache, FOLLOW[:, None], ends)
  np.testing.assert_allclose(np.asarray(logits)[:, 0], of_follow, atol=NEAR, rtol=1e-4)


@pytest.mark.parametrize('name', NAMES)
def test_a_tree_grows_in_several_passes(name):
  """The first four nodes, then the others, which see them where they were written."""
  model, cache = families.make(name), start(families.make(name), np.nan)
  key_positions, visible = sight(LENGTHS[:, None] + np.arange(NODES))
  positions = LENGTHS[:, None] + DEPTHS
  early, cache, _ = families.tree_step(
      model, cache, TOKENS[:, :4], positions[:, :4], LENGTHS, key_positions, visible[:, :4])
  late, _, block = families.tree_step(
      model, cache, TOKENS[:, 4:], positions[:, 4:], LENGTHS + 4, key_positions, visible[:, 4:])
  np.testing.assert_allclose(np.concatenate([early, late], axis=1), wanted(name)[0], atol=NEAR, rtol=1e-4)
  assert [x.shape[2] for x in jax.tree.leaves(block)] == [3] * 4


@pytest.mark.parametrize('value', [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize('name', NAMES)
def test_a_broken_node_breaks_its_descendants_alone(name, value):
  model = families.make(name)
  broken = families.with_embedding(model, families.ODD, value)
  tokens = TOKENS.copy()
  tokens[:, 1] = families.ODD
  run = lambda m, tokens: np.asarray(families.tree_step(
      m, start(m, 0.0), tokens, LENGTHS[:, None] + DEPTHS, LENGTHS,
      *sight(LENGTHS[:, None] + np.arange(NODES)))[0])[..., families.OTHERS]
  descends = np.array([1 in path(n) for n in range(NODES)])
  got, sound = run(broken, tokens), run(model, TOKENS)
  np.testing.assert_array_equal(got[:, ~descends], sound[:, ~descends])
  assert not np.isfinite(got[:, descends]).any()


def test_a_node_behind_the_last_position_of_a_gpt2_disturbs_no_other():
  model = families.make('gpt2', 0)
  model = model.replace(config=type(model.config)(**{**vars(model.config), 'max_positions': 18}))
  cache = start(model, np.nan)
  positions = LENGTHS[:, None] + DEPTHS
  far = np.where(np.arange(NODES) == 6, 40, positions)
  seen = sight(LENGTHS[:, None] + np.arange(NODES))
  near_logits, far_logits = (np.asarray(families.tree_step(model, cache, TOKENS, p, LENGTHS, *seen)[0])
                             for p in (positions, far))
  np.testing.assert_array_equal(near_logits[:, :6], far_logits[:, :6])
  assert np.isfinite(far_logits).all() and (near_logits[:, 6] != far_logits[:, 6]).any()


def test_what_is_committed_comes_from_the_block():
  """By hand: entry i of a row is the block's at nodes[i], and everything else stays."""
  model = families.make('gpt2')
  cache = {'self': [{'key': jnp.zeros((2, 1, 6, 1)), 'value': jnp.zeros((2, 1, 6, 1))}]}
  new = jnp.arange(8.0).reshape(2, 1, 4, 1)
  got = model.commit(cache, [{'key': new, 'value': -new}], np.array([[3, 1], [0, 0]]), np.array([1, 4]))
  np.testing.assert_array_equal(got['self'][0]['key'][:, 0, :, 0], [[0, 3, 1, 0, 0, 0], [0, 0, 0, 0, 4, 4]])
  np.testing.assert_array_equal(got['self'][0]['value'], -got['self'][0]['key'])
