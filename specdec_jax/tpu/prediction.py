"""Predicted speed: tokens of an iteration over its time, which the traffic of its passes gives.

For a chain that is thm 3.8 with the verify cost. `theory.speed_up` is the formula by itself, and `speed_up_on_v4` fills
in what T5-XXL with T5-small takes on the paper's chip: for figures measured with another pair.
"""

import collections
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from specdec_jax.analysis import domains, theory
from specdec_jax.analysis.cost import Ratios
from specdec_jax.model import Model
from specdec_jax.parallel.partition import possible_parts
from specdec_jax.tpu import drafting, shapes
from specdec_jax.tpu.chips import Chip, get_chip, num_devices
from specdec_jax.tpu.traffic import Assumptions, Pass, decoder_pass
from specdec_jax.tree import Tree

_MOST_GAMMA = 32
MOST_DEPTH = 16
_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Deployment:
  """Where and how a pair decodes.

  Attributes:
    target: a `Model` of shapes.
    drafter: a drafter of shapes, or None.
    chip, topology: such as 'v4' and '1x1x1'.
    batch, input_length, max_decode_len: shapes.
    assumptions: see `traffic`.
    data: groups of devices that each take a part of the batch; those of a group share the target.
    split_draft: the draft is split over the devices like the target; else each holds it whole.
  """

  target: Model
  drafter: Any
  chip: Chip
  topology: str
  batch: int
  input_length: int
  max_decode_len: int
  assumptions: Assumptions = Assumptions()
  data: int = 1
  split_draft: bool = False

  @property
  def devices(self) -> int:
    return num_devices(self.chip, self.topology)

  @property
  def draft(self) -> Model | None:
    return getattr(self.drafter, 'draft', None)

  @property
  def parts(self) -> int:
    """Devices that share the target."""
    return self.devices // self.data

  @property
  def rows(self) -> int:
    """Of the batch, on each device."""
    return math.ceil(self.batch / self.data)

  def cache_length(self, nodes: int) -> int:
    """Slots of a row, for drafts of so many nodes (of a chain gamma)."""
    prefix = self.input_length if self.target.config.decoder_only else 1
    return prefix + self.max_decode_len + nodes + 1

  def target_pass(self, tokens: int, nodes: int) -> Pass:
    return decoder_pass(self.target, tokens, self.rows, self.input_length, self.cache_length(nodes))

  def draft_pass(self, nodes: int, tokens: int = 1) -> Pass | None:
    return drafting.draft_pass(self.drafter, self.target, tokens, self.rows, self.input_length,
                               self.cache_length(nodes), self.parts)

  @property
  def draft_parts(self) -> int:
    """Devices that share the draft; heads are whole on each."""
    return self.parts if self.split_draft and self.draft is not None else 1

  @property
  def most_depth(self) -> int | None:
    """Of a draft, where the drafter has a limit."""
    return getattr(self.drafter, 'most_depth', None)

  def seconds(self, work: Pass, of_draft: bool = False) -> float:
    return work.seconds(self.chip, self.assumptions, self.draft_parts if of_draft else self.parts)


def on_slice(deployment: Deployment, topology: str) -> Deployment:
  """On another slice, the target in as many parts as it divides into there."""
  devices = num_devices(deployment.chip, topology)
  parts = max(n for n in possible_parts(deployment.target.config) if devices % n == 0)
  return dataclasses.replace(deployment, topology=topology, data=devices // parts)


def holds(deployment: Deployment, nodes: int) -> bool:
  """Whether each device has room for its weights and caches and a twentieth beside, by size."""
  return 1.05 * held_bytes(deployment, nodes) <= deployment.chip.usable


def held_bytes(deployment: Deployment, nodes: int) -> float:
  """Weights and caches of one device, by size; how the compiler lays them out and what else it holds aside."""
  held = (shapes.num_bytes(deployment.target.params) + deployment.target_pass(1, nodes).caches) / deployment.parts
  draft_pass = deployment.draft_pass(nodes)
  if draft_pass is not None:
    draft = shapes.num_bytes(drafting.weights(deployment.drafter)) + draft_pass.caches
    held += draft / deployment.draft_parts
  return held


def smallest_slice(deployment: Deployment, nodes: int) -> Deployment | None:
  """On the smallest slice of the chip that holds the pair with drafts of so many nodes, None where none known does."""
  slices = (on_slice(deployment, topology) for topology in deployment.chip.slices)
  return next((on for on in slices if holds(on, nodes)), None)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Predicted(Ratios):
  """Times of the parts of an iteration and what follows from them; seconds.

  Attributes:
    tree: of the draft, a chain of gamma in the paper; None is plain decoding.
    acceptance_by_rank: probability that the k-th candidate of a place is the one accepted, the first of them alpha;
      None leaves what depends on it None.
    target_step: a pass of plain decoding, whose caches need no room for drafts.
    verify_pass, draft_step: one pass of each, the draft's over one token a row; of parallel heads, whose one pass makes
      all tokens of a draft, a token's share of it.
    drafting: all levels of an iteration.
    tokens_per_call: expected.
    speed_up: over the target alone.
    best_gamma: the gamma with the largest speed-up, 0 where no draft helps.
    tokens_per_second, tokens_per_second_alone: of the whole batch, encoder aside.
    pays_less_from_batch: the smallest batch at which the speed-up is less than nine tenths of
      that of batch 1; None where none is, of those up to 1024 that fit.
  """

  tree: Tree | None
  acceptance_by_rank: tuple[float, ...] | None
  target_step: float
  verify_pass: float
  draft_step: float
  drafting: float
  tokens_per_call: float | None = None
  speed_up: float | None = None
  best_gamma: int | None = None
  tokens_per_second: float | None = None
  tokens_per_second_alone: float
  pays_less_from_batch: int | None = None

  @property
  def alpha(self) -> float | None:
    return self.acceptance_by_rank[0] if self.acceptance_by_rank else None


def predict(deployment: Deployment, tree: Tree | int | None, ranks: float | Sequence[float] | None = None) -> Predicted:
  """From sizes alone: no compiler, no device.

  Args:
    deployment: where and how.
    tree: a number is a chain of so many, 0 plain decoding.
    ranks: `Predicted.acceptance_by_rank`; for a chain alpha is enough.
  """
  tree, ranks = _tree(tree), _ranks(ranks)
  at = times(deployment, tree, ranks)
  if ranks is None or tree is None:
    return at
  speeds = {g: times(deployment, Tree.chain(g), ranks).speed_up or 0.0
            for g in range(1, (deployment.most_depth or _MOST_GAMMA) + 1)}
  best = max(speeds, key=lambda g: speeds[g])
  of_batch = {b: dataclasses.replace(deployment, batch=b) for b in _BATCHES}
  speed_up_of = {b: times(d, tree, ranks).speed_up or 0.0 for b, d in of_batch.items()
                 if b == 1 or holds(d, tree.num_nodes)}
  less = [b for b, s in speed_up_of.items() if s < 0.9 * speed_up_of[1]]
  return dataclasses.replace(at, best_gamma=best if speeds[best] > 1 else 0,
                             pays_less_from_batch=min(less, default=None))


def best_tree(deployment: Deployment, nodes: int, ranks: Sequence[float], free: bool = False) -> Tree:
  """The fastest tree of up to so many nodes.

  Args:
    deployment: where and how.
    nodes: at most.
    ranks: `Predicted.acceptance_by_rank`.
    free: take the verify pass to cost the same for every tree, so that all nodes are used.
  """
  depth = deployment.most_depth or MOST_DEPTH
  step, draft = _target_seconds(deployment, 1, 0), times(deployment, depth).draft_step
  cost = None if free else lambda tokens: _target_seconds(deployment, tokens, tokens - 1) / step
  return theory.best_tree(ranks, nodes, depth, draft / step, cost)


def speed_up_on_v4(tokens_per_call: float, tree: Tree | int, batch: int = 1, target: Any = 't5_1_1_xxl',
                   draft: Any = 't5_1_1_small') -> float:
  """`theory.speed_up` with the planner's c and verify cost for one v4, bfloat16, inputs and texts of 128.

  `speed_up_on_v4(3.60, 7)` is the first row of Table 2: 3.17X.

  Args:
    tokens_per_call: such as a decode with that tree, or with gamma, measured with any pair.
    tree: a number is a chain of so many, the paper's gamma.
    batch: rows of a device call.
    target, draft: as in `tpu.plan`.
  """
  target = shapes.abstract_model(target)
  deployment = Deployment(
      target=target, drafter=shapes.abstract_drafter(draft, target=target), chip=get_chip('v4'),
      topology='1x1x1', batch=batch, input_length=128, max_decode_len=128)
  at = times(deployment, tree)
  return tokens_per_call * at.target_step / (at.drafting + at.verify_pass)


def _tree(tree: Tree | int | None) -> Tree | None:
  return tree if isinstance(tree, Tree) else Tree.chain(tree) if tree else None


def _ranks(ranks: float | Sequence[float] | None) -> tuple[float, ...] | None:
  if ranks is None:
    return None
  if isinstance(ranks, (int, float)):
    return float(domains.probabilities(ranks, 'alpha')),
  return tuple(domains.acceptance_by_rank(ranks).tolist())


def _target_seconds(deployment: Deployment, tokens: int, nodes: int) -> float:
  return deployment.seconds(deployment.target_pass(tokens, nodes))


def _draft_seconds(deployment: Deployment, nodes: int, tokens: int = 1) -> float:
  work = deployment.draft_pass(nodes, tokens)
  return 0.0 if work is None else deployment.seconds(work, of_draft=True)


def times(deployment: Deployment, tree: Tree | int | None, ranks: float | Sequence[float] | None = None) -> Predicted:
  """`predict` without the best gamma and the batch from which drafts pay less: for tables of many."""
  tree, ranks = _tree(tree), _ranks(ranks)
  nodes, passes = (0, ()) if tree is None else (tree.num_nodes, drafting.tokens_by_pass(deployment.drafter, tree))
  step, verify = _target_seconds(deployment, 1, 0), _target_seconds(deployment, nodes + 1, nodes)
  drafted = sum(times * _draft_seconds(deployment, nodes, tokens)
                for tokens, times in collections.Counter(passes).items())
  draft_step = _draft_seconds(deployment, nodes)
  if tree is not None and drafting.in_one_pass(deployment.drafter):
    draft_step = drafted / tree.depth
  at = Predicted(
      tree=tree, acceptance_by_rank=ranks, target_step=step, verify_pass=verify, draft_step=draft_step,
      drafting=drafted, tokens_per_second_alone=deployment.batch / step)
  if tree is None or ranks is None:
    return at
  tokens = float(theory.expected_tokens(ranks, tree=tree))
  faster = tokens * step / (drafted + verify)
  return dataclasses.replace(at, tokens_per_call=tokens, speed_up=faster,
                             tokens_per_second=faster * at.tokens_per_second_alone)
