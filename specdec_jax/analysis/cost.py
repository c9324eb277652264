"""c and the verify cost of chains and trees, by timing an iteration and its parts in one run.

The draft's time is what it adds to an iteration: run by itself, its weights would stay in a
processor's caches, from which the target's pass drives them out in a decode.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax import compilation
from specdec_jax.analysis import reliability
from specdec_jax.decoding import Settings, inputs, loop
from specdec_jax.decoding.commit import write_rows
from specdec_jax.decoding.state import hidden_after, hidden_before
from specdec_jax.drafters.interface import Proposal, Text, for_target, wants_hidden
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree

_MOST_CALLS = 1 << 20  # of a part that takes no time at all, such as a table's prefill


class Ratios:
  """What follows from the seconds draft_step, target_step and verify_pass."""

  draft_step: float
  target_step: float
  verify_pass: float

  @property
  def c(self) -> float:
    """Draft step over target step [§3.3]."""
    return self.draft_step / self.target_step

  @property
  def verify_cost(self) -> float:
    """Pass over the root and the whole draft over one-token pass; the paper takes it to be 1."""
    return self.verify_pass / self.target_step


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cost(Ratios):
  """Times in seconds, medians; every pass includes its distributions and samples, as in a decode.

  Attributes:
    gamma: draft passes an iteration: the draft length, of a tree its depth.
    draft_step: one draft token, of a tree one level: what a proposal adds to the pass, divided by gamma.
    target_step: the target's one-token pass.
    verify_pass: the target's pass over the root and the draft, with the acceptance rule.
    target_encoder, draft_encoder: what precedes the first iteration.
    spread: the `reliability.spread` of the passes; None where each was timed once.
    nodes: draft tokens an iteration; gamma by default, that is of a chain.
  """

  gamma: int
  draft_step: float
  target_step: float
  verify_pass: float
  target_encoder: float
  draft_encoder: float
  spread: float | None = None
  nodes: int = 0

  def __post_init__(self):
    object.__setattr__(self, 'nodes', self.nodes or self.gamma)

  def alone_seconds(self, steps: float) -> float:
    """What a decode without a draft should take: the encoder and so many steps."""
    return self.target_encoder + steps * self.target_step

  def decode_seconds(self, iterations: float) -> float:
    """What a speculative decode should take: the encoders and so many iterations."""
    iteration = self.gamma * self.draft_step + self.verify_pass
    return self.target_encoder + self.draft_encoder + iterations * iteration


def measure(target, drafter, tokens, shapes: Sequence[int | Tree] = (7,), sampling: Sampling = Sampling(),
            *, max_decode_len: int = 128, position: int | None = None, rounds: int = 5,
            seconds: float = 0.1, tell: Callable[[str], object] = lambda words: None) -> dict[int | Tree, Cost]:
  """Times the parts of an iteration on real models, lengths and caches.

  Each part, and an iteration as a whole, runs inside one compiled loop; they take
  turns over several rounds, so that a slow spell of the machine meets them all.

  Args:
    target, drafter: as in `speculative_decode`.
    tokens: int [B, S], encoder tokens or prompts of a typical batch.
    shapes: of the draft: draft lengths, or trees.
    sampling: of both models.
    max_decode_len: sets the cache length.
    position: where in the generated text the passes are timed; the middle by default.
    rounds: timings of each part, of which the median counts.
    seconds: how long one timing lasts, roughly.
    tell: called with what is done next, in words: each part is compiled before it is timed.

  Returns:
    A `Cost` for each shape.
  """
  target, sampling = inputs.checked_target(target), inputs.checked_sampling(sampling)
  drafter = for_target(inputs.checked_drafter(drafter, target), target)
  trees = {shape: shape if isinstance(shape, Tree) else Tree.chain(shape) for shape in shapes}
  request, text, told, passes = _passes_of(target, tokens, trees.values(), sampling, max_decode_len, position)
  slots, standardizer = text.history.shape[1], passes.keywords['standardizer']
  if wants_hidden(drafter):
    request = request.replace(hidden=told)
  state = _prefill(drafter, request, slots)

  def at(tree: Tree | None) -> Text:
    told = request.hidden and tree and hidden_before(request.hidden, jnp.zeros_like(text.position), tree.depth + 1)
    return text.replace(hidden=told)

  parts: dict[str | tuple[str, int | Tree], Callable] = {
      'target_step': functools.partial(passes, None, None, text=text, tree=None),
      'target_encoder': functools.partial(_encodings, target, request.tokens, slots=slots),
      'draft_encoder': functools.partial(_encodings, drafter, request, slots=slots)}
  for shape, tree in trees.items():
    parts['verify_pass', shape] = functools.partial(passes, None, None, text=text, tree=tree)
    parts['iteration', shape] = functools.partial(passes, drafter, state, text=at(tree), tree=tree)
    parts['proposal', shape] = functools.partial(
        _proposals, drafter, state, at(tree), tree=tree, standardizer=standardizer)

  def words(name):
    return (name if isinstance(name, str) else f'{name[0]}, {trees[name[1]].name}').replace('_', ' ')

  timed = _in_turns(parts, rounds, seconds, tell, words)
  median = {name: statistics.median(values) for name, values in timed.items()}
  common = {n: median[n] for n in ('target_step', 'target_encoder', 'draft_encoder')}
  proposal = {shape: _added(timed['iteration', shape], timed['verify_pass', shape], median['proposal', shape])
              for shape in trees}
  spread = lambda shape: reliability.spread(
      [timed[name] for name in ('target_step', ('verify_pass', shape), ('iteration', shape))])
  return {shape: Cost(gamma=tree.depth, nodes=tree.num_nodes, draft_step=proposal[shape] / tree.depth,
                      spread=spread(shape), verify_pass=median['verify_pass', shape], **common)
          for shape, tree in trees.items()}


def pass_seconds(targets: Mapping[str, Any], tokens, tree: Tree, *, rounds: int = 5,
                 seconds: float = 0.1) -> dict[str, tuple[float, float]]:
  """How long targets take for one token and for a pass over a tree, in turns, at temperature 0.

  Args:
    targets: models by name.
    tokens: int [B, S], as of `measure`.
    tree: of the longer pass: its root and all nodes.
    rounds, seconds: as of `measure`.

  Returns:
    Of each target seconds of a step and of a pass, medians.
  """
  parts = {}
  for name, target in targets.items():
    _, text, _, passes = _passes_of(target, tokens, [tree], Sampling(temperature=0), 16, None)
    for shape in (None, tree):
      parts[name, shape] = functools.partial(passes, None, None, text=text, tree=shape)
  median = {part: statistics.median(times) for part, times in _in_turns(parts, rounds, seconds).items()}
  return {name: (median[name, None], median[name, tree]) for name in targets}


def _passes_of(target, tokens, trees, sampling, max_decode_len, position):
  """What an iteration of a target is timed with: request, text, hidden states of its prefix, and its passes."""
  tokens = target.check_tokens(tokens)
  request = inputs.unplaced_request(target, tokens, None)
  prefix = target.decoder_prefix(request.tokens, request.lengths)[0].shape[1]
  slots = prefix + max_decode_len + max(tree.num_nodes for tree in trees) + 1
  position = max_decode_len // 2 if position is None else position
  positions = jnp.full(len(tokens), prefix - 1 + position, jnp.int32)
  text = Text(history=jnp.full((len(tokens), slots), 2, jnp.int32), position=positions,
              prefix_end=jnp.zeros_like(positions))
  cache, told = _prefill_with_hidden(target, request.tokens, slots)
  passes = functools.partial(_iterations, target, cache=cache, standardizer=Standardizer.of_target(target, sampling))
  return request, text, told, passes


def _in_turns(parts, rounds, seconds, tell=lambda words: None, words=str):
  """Seconds of a turn of each part's loop, a list by part: every round times every part."""
  calls, timed = {}, {name: [] for name in parts}
  for name, run in parts.items():
    tell(f'compiling {words(name)}')
    calls[name] = _calls_for(run, seconds)
  for i in range(rounds):
    tell(f'round {i + 1} of {rounds}')
    for name, run in parts.items():
      timed[name].append(_time(run, calls[name]))
  return timed


def _added(iterations, passes, alone: float) -> float:
  """What a proposal adds to a pass, by pairs timed next to each other; no less than alone."""
  return max(statistics.median(i - p for i, p in zip(iterations, passes)), alone)


def _time(run, calls: int) -> float:
  """Seconds of one of so many turns of a loop."""
  start = time.perf_counter()
  jax.block_until_ready(run(calls=calls))
  return (time.perf_counter() - start) / calls


def _calls_for(run, seconds: float) -> int:
  """How often a loop must turn to last `seconds`; compiles it on the way."""
  jax.block_until_ready(run(calls=1))
  calls = 2
  while (took := _time(run, calls) * calls) < seconds / 4 and calls < _MOST_CALLS:
    calls *= 4
  return min(max(2, round(calls * seconds / took)), _MOST_CALLS)


@functools.partial(compilation.jit, static_argnames='slots')
def _prefill(model, given, slots):
  return model.prefill(given, slots)


@functools.partial(compilation.jit, static_argnames='slots')
def _prefill_with_hidden(target, tokens, slots):
  return target.prefilled_with_hidden(tokens, slots)


def _keys(batch, i):
  return jax.vmap(jax.random.fold_in, (None, 0))(
      jax.random.fold_in(jax.random.key(0), i), jnp.arange(batch))


@functools.partial(compilation.jit, static_argnames='tree')
def _iterations(target, drafter, state, *, cache, text: Text, calls, tree: Tree | None, standardizer):
  """A decode's iterations that all stay at one place; without a drafter its passes alone.

  A pass is over the root and the tree of every row, with its distributions and its choice.
  """
  batch = len(text.position)
  settings = Settings(tree=tree, max_decode_len=1)
  parents = sum(len(nodes) for nodes in tree.expanded) if tree else 0
  q = jnp.full((batch, parents, standardizer.num_rows), 1 / standardizer.num_rows, jnp.float32)

  def body(i, carry):
    cache, state, text = carry
    keys = _keys(batch, i)
    proposal = None
    if drafter is not None:
      proposal, state = drafter.propose(state, text, tree, keys, standardizer)
    elif tree is not None:
      places = text.position[:, None] + 1 + jnp.arange(tree.num_nodes)
      proposal = Proposal(jnp.take_along_axis(text.history, places, axis=1), q)
    (logits, cache, block), told = loop.target_pass(target, cache, text, proposal, tree, text.hidden is not None)
    processed = loop.process_pass(standardizer, logits, text, proposal, tree)
    path, _, token = loop.choose(standardizer, None, settings, processed, proposal, keys)
    if block is not None:
      cache = target.commit(cache, block, path + 1, text.position + 1)
    # What was chosen is fed next, so that no call is left out.
    after = None if told is None else hidden_after(text.hidden, told, path, jnp.ones_like(text.position))
    return cache, state, text.replace(history=write_rows(text.history, token[:, None], text.position), hidden=after)

  return lax.fori_loop(0, calls, body, (cache, state, text))


@functools.partial(compilation.jit, static_argnames='tree')
def _proposals(drafter, state, text: Text, *, calls, tree: Tree, standardizer):
  """Proposals of a tree a row, alone."""
  batch = len(text.position)
  sampled_from = tree.expanded_index[np.asarray(tree.parents) + 1]

  def body(i, carry):
    state, text, used = carry
    proposal, state = drafter.propose(state, text, tree, _keys(batch, i), standardizer)
    text = text.replace(history=write_rows(text.history, proposal.tokens, text.position + 1))
    if proposal.q is not None:  # what the rule reads of q
      used += jax.vmap(lambda q, tokens: q[sampled_from, tokens])(proposal.q, jnp.maximum(proposal.tokens, 0))
    return state, text, used

  return lax.fori_loop(0, calls, body, (state, text, jnp.zeros((batch, tree.num_nodes), jnp.float32)))


@functools.partial(compilation.jit, static_argnames='slots')
def _encodings(model, given, *, calls, slots):
  """Prefills; each one's tokens wait for the one before, so that none is left out.

  Args:
    given: tokens int32 [B, S] of a model, a `Request` of a drafter.
  """
  empty = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype),
                       jax.eval_shape(lambda: model.prefill(given, slots)))

  def body(i, carry):
    del i
    given, _ = carry
    state = model.prefill(given, slots)
    leaves = jax.tree.leaves(state)  # a drafter may keep none
    never = leaves[0].ravel()[0] > jnp.inf if leaves else jnp.zeros((), bool)
    return jax.tree.map(lambda x: x + never.astype(x.dtype), given), state

  return lax.fori_loop(0, calls, body, (given, empty))
