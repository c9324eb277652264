import jax
import jax.numpy as jnp
import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.analysis import cost as cost_lib, operations
from specdec_jax.decoding import Settings, loop
from specdec_jax.decoding.inputs import unplaced_request
from specdec_jax.drafters.interface import Text
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


def test_every_part_is_timed(target, draft):
  tokens = target.encode(['the file cannot be opened', 'new media'])
  tree = Tree((-1, -1, 0, 0, 2))
  costs = cost_lib.measure(target, ModelDrafter(draft), tokens, (2, tree), Sampling(temperature=0.0),
                           max_decode_len=12, rounds=2, seconds=0.01)
  assert set(costs) == {2, tree} and [c.nodes for c in costs.values()] == [2, 5]
  for gamma, cost in zip((2, 3), costs.values()):
    parts = (cost.draft_step, cost.target_step, cost.verify_pass, cost.target_encoder,
             cost.draft_encoder)
    assert cost.gamma == gamma and min(parts) > 0 and max(parts) < 10 and cost.spread >= 0


@pytest.mark.parametrize('drafter', [
    sd.NGramDrafter.fit([[2, 3, 1]], num_tokens=128), sd.LookupDrafter(), sd.RandomDrafter()],
                         ids=lambda d: d.name)
def test_drafters_that_compute_nothing_beforehand_are_timed_too(target, drafter):
  tokens = jnp.asarray(target.encode(['new media']))
  standardizer = Standardizer.of(Sampling(), num_rows=128, num_tokens=target.num_tokens)
  request = unplaced_request(target, tokens, None)
  encodings = lambda calls: cost_lib._encodings(drafter, request, calls=calls, slots=20)
  assert 2 <= cost_lib._calls_for(encodings, 0.01) <= cost_lib._MOST_CALLS
  state = drafter.prefill(request, 20)
  state, *_ = cost_lib._proposals(drafter, state, text(), calls=3, tree=Tree.chain(2), standardizer=standardizer)
  assert jax.tree.structure(state) == jax.tree.structure(drafter.prefill(request, 20))


def text():
  """One row whose text ends at place 5."""
  return Text(history=jnp.full((1, 20), 2, jnp.int32), position=jnp.full(1, 5, jnp.int32),
              prefix_end=jnp.zeros(1, jnp.int32))


@pytest.mark.long
@pytest.mark.parametrize('temperature', [0.0, 1.0])
def test_a_tree_is_timed_as_it_is_decoded(target, draft, temperature):
  """One turn of the loop proposes, passes, chooses and moves a path's entries as an iteration does."""
  drafter, tree = ModelDrafter(draft), Tree((-1, -1, 0, 0, 1))
  tokens = jnp.asarray(target.encode(['new media']))
  standardizer = Standardizer.of(Sampling(temperature=temperature), num_rows=128, num_tokens=target.num_tokens)
  cache = cost_lib._prefill(target, tokens, 20)
  state = cost_lib._prefill(drafter, unplaced_request(target, tokens, None), 20)
  run = lambda drafter, state: cost_lib._iterations(
      drafter=drafter, state=state, target=target, cache=cache, text=text(), calls=1, tree=tree,
      standardizer=standardizer)
  proposal, _ = drafter.propose(state, text(), tree, cost_lib._keys(1, 0), standardizer)
  (logits, after, block), told = loop.target_pass(target, cache, text(), proposal, tree)
  assert told is None
  processed = loop.process_pass(standardizer, logits, text(), proposal, tree)
  path, _, token = loop.choose(standardizer, None, Settings(tree=tree, max_decode_len=1), processed, proposal,
                               cost_lib._keys(1, 0))
  found = run(drafter, state)
  assert found[2].history[0, 5] == token[0]
  expected = target.commit(after, block, path + 1, text().position + 1)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found[0], expected)
  *_, used = cost_lib._proposals(drafter, state, text(), calls=1, tree=tree, standardizer=standardizer)
  assert used.shape == (1, 5) and (temperature == 0 or (used > 0).all())
  run(None, None)


def test_an_iteration_proposes_and_passes_at_one_place(target, draft):
  drafter = ModelDrafter(draft)
  tokens = jnp.asarray(target.encode(['new media']))
  standardizer = Standardizer.of(Sampling(temperature=0.0), num_rows=128, num_tokens=target.num_tokens)
  cache = cost_lib._prefill(target, tokens, 20)
  state = cost_lib._prefill(drafter, unplaced_request(target, tokens, None), 20)
  where = text()

  @jax.jit
  def by_hand(target, drafter, cache, state):
    proposal, state = drafter.propose(state, where, Tree.chain(3), cost_lib._keys(1, 0), standardizer)
    block = jnp.concatenate([where.history[:, 5:6], proposal.tokens], axis=1)
    logits, cache = target.step(cache, block, where.position)
    return proposal.tokens, logits, (cache, state)

  drafts, logits, after = by_hand(target, drafter, cache, state)
  run = lambda drafter, state: cost_lib._iterations(
      drafter=drafter, state=state, target=target, cache=cache, text=where, calls=1, tree=Tree.chain(3),
      standardizer=standardizer)
  found = run(drafter, state)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found[:2], after)
  best = np.asarray(standardizer.mask(logits))[0].argmax(-1)
  accepted = int(np.cumprod(np.asarray(drafts)[0] == best[:3]).sum())
  assert found[2].history[0, 5] == best[accepted]  # where the next iteration reads it
  alone = run(None, None)  # the pass over what stands there
  assert alone[1] is None and alone[2].history.shape == (1, 20)


def test_every_step_alone_is_run(target):
  """The token of a turn comes from the one before: what comes out is what as many steps give by hand."""
  standardizer = Standardizer.of_target(target, Sampling(temperature=0.0))
  cache, where = cost_lib._prefill(target, jnp.asarray(target.encode(['new media'])), 20), text()
  found = cost_lib._iterations(target, None, None, cache=cache, text=where, calls=4, tree=None,
                               standardizer=standardizer)
  step, token = jax.jit(type(target).step), where.history[:, 5:6]
  for _ in range(4):
    logits, cache = step(target, cache, token, where.position)
    token = standardizer.mask(logits).argmax(-1).astype(jnp.int32)
  np.testing.assert_array_equal(found[2].history[:, 5:6], token)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), found[0], cache)


def test_targets_are_timed_in_turns(target, draft, monkeypatch):
  """Each for one token, then for the tree; the medians are of the rounds."""
  seen = []

  def a_time(run, calls):
    seen.append((run.args[0], run.keywords['tree']))
    jax.block_until_ready(run(calls=1))
    return float(len(seen))

  monkeypatch.setattr(cost_lib, '_time', a_time)
  tree, targets = Tree.chain(2), {'large': target, 'small': draft}
  found = cost_lib.pass_seconds(targets, target.encode(['new media']), tree, rounds=3)
  turns = [(model, shape) for model in (target, draft) for shape in (None, tree)]
  assert len(seen) == 16 and all(a is c and b == d for (a, b), (c, d) in zip(seen, 4 * turns))
  assert found == {'large': (9.0, 10.0), 'small': (11.0, 12.0)}


def test_a_proposal_takes_what_it_adds_to_a_pass_and_no_less_than_alone():
  iterations, passes = [3.0, 9.0, 3.2], [2.0, 8.5, 2.0]  # a slow spell in the middle meets both
  assert cost_lib._added(iterations, passes, 0.4) == pytest.approx(1.0)
  assert cost_lib._added(iterations, passes, 1.1) == 1.1
  assert cost_lib._added(passes, iterations, 0.4) == 0.4


def test_ratios_and_the_time_of_a_decode():
  cost = cost_lib.Cost(gamma=4, draft_step=0.1, target_step=2.0, verify_pass=2.8,
                       target_encoder=5.0, draft_encoder=1.0)
  assert cost.c == pytest.approx(0.05) and cost.verify_cost == pytest.approx(1.4)
  assert cost.decode_seconds(10) == pytest.approx(5 + 1 + 10 * (0.4 + 2.8))
  assert cost.alone_seconds(10) == pytest.approx(5 + 10 * 2.0)


def test_operations_count_every_kernel_a_token_uses(target, draft):
  def expected(model):
    cfg = model.config
    attention = 4 + 2  # self-attention's four kernels, the query and output of cross-attention
    layer = (attention * cfg.emb_dim * cfg.attention_dim + 3 * cfg.emb_dim * cfg.mlp_dim)
    return cfg.num_decoder_layers * layer + cfg.emb_dim * cfg.vocab_size

  assert operations.operations_per_token(target) == expected(target)
  ratio = operations.operations_ratio(target, ModelDrafter(draft))
  assert ratio == pytest.approx(expected(draft) / expected(target))
  for free in (sd.RandomDrafter(), sd.LookupDrafter(), sd.NGramDrafter.fit([[1]], num_tokens=9)):
    assert operations.operations_ratio(target, free) == 0.0
  heads = sd.ParallelDrafter(print, operations=expected(target) / 4)
  assert operations.operations_ratio(target, heads) == pytest.approx(0.25)
