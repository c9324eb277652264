"""A plan: does a pair fit a TPU, what does an iteration read, how fast should it be."""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from specdec_jax.checks import whole
from specdec_jax.decoding import Settings
from specdec_jax.decoding.inputs import checked_tree
from specdec_jax.drafters.heads import HeadsDrafter, LayerDrafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.parallel import partition
from specdec_jax.sampling import Sampling
from specdec_jax.tpu import compile as compile_lib, drafting, shapes, topology as topology_lib
from specdec_jax.tpu.acceptance import acceptance_by_rank as assumed_ranks
from specdec_jax.tpu.chips import GIB, get_chip
from specdec_jax.tpu.prediction import Deployment, Predicted, best_tree, predict, smallest_slice
from specdec_jax.tpu.traffic import Assumptions, Pass
from specdec_jax.tpu.weight_use import Audit, audit
from specdec_jax.tree import Tree


@dataclasses.dataclass(frozen=True, kw_only=True)
class Memory:
  """HBM of one device, bytes.

  Attributes:
    weights: of target and draft.
    caches: of both, as arrays.
    temporaries: everything else that the program allocates, the padding of the caches included;
      None where it does not compile.
    peak: arguments, results, caches, temporaries and code; None where it does not compile.
    capacity: what the compiler lets a program have.
  """

  weights: int
  caches: int
  temporaries: int | None
  peak: int | None
  capacity: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class PassTraffic:
  """One pass alone, all devices together; counts of the compiler are of one device.

  Attributes:
    tokens: of the pass, a row.
    work: bytes and operations from the sizes.
    seconds: by the model of time in `traffic`.
    counted_bytes, counted_flops: the compiler's count; None where it was not compiled.
    audit: of the compiled text, likewise.
  """

  tokens: int
  work: Pass
  seconds: float
  counted_bytes: float | None = None
  counted_flops: float | None = None
  audit: Audit | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """What `plan` returns; `tables.markdown` prints it.

  Attributes:
    deployment, tree, sampling: what was planned; tree None is plain decoding.
    memory: see `Memory`.
    fits: on the devices asked for.
    smallest_slice: the smallest topology of this chip that it fits, None where none does.
    traffic: {'target_step', 'verify_pass', 'draft_step': PassTraffic}.
    iteration: what the decode program does with the weights in one iteration, None where it
      does not compile or cannot be printed.
    predicted: see `Predicted`; None where the pair does not fit.
    warnings: in plain words.
    program: the compiled text of the decode program, '' where there is none.
  """

  deployment: Deployment
  tree: Tree | None
  sampling: Sampling
  memory: Memory
  fits: bool
  smallest_slice: str | None
  traffic: dict[str, PassTraffic]
  iteration: Audit | None
  predicted: Predicted | None
  warnings: tuple[str, ...]
  program: str = dataclasses.field(repr=False)

  @property
  def gamma(self) -> int | None:
    """Of a chain, 0 in plain decoding; None of any other tree."""
    return 0 if self.tree is None else self.tree.num_nodes if self.tree.is_chain else None

  @property
  def nodes(self) -> int:
    """Draft tokens of an iteration."""
    return 0 if self.tree is None else self.tree.num_nodes


def plan(target: Any = 't5_1_1_xxl', draft: Any = 't5_1_1_small', chip: str = 'v4',
         topology: str = '1x1x1', gamma: int | None = None, batch: int = 1, input_length: int = 128,
         max_decode_len: int = 128, sampling: Sampling = Sampling(temperature=0.0),
         alpha: float | None = None, dtype: str = 'bfloat16', assumptions: Assumptions = Assumptions(),
         data: int = 1, split_draft: bool = False, passes: bool = True,
         tell: Callable[[str], None] | None = None, tree: Tree | int | None = None, nodes: int | None = None,
         acceptance_by_rank: Sequence[float] | None = None, draft_dtype: str | None = None) -> Plan:
  """Compiles the decode program for a TPU that need not be there, and reports on it.

  Args:
    target: a name of gin/models, a model directory, a configuration or a `Model`.
    draft: likewise, or a drafter, or the `HeadsConfig` of heads on the target; None plans plain decoding.
    chip: 'v4', 'v5e', 'v5p', 'v6e' or 'tpu7x'.
    topology: chips in each direction. More than one device share the target along their
      'model' axis [`parallel.partition`].
    gamma, tree, batch, input_length, max_decode_len, sampling: as in `speculative_decode`; input_length is
      the prompt's for a decoder-only model.
    nodes: in place of a tree, the fastest tree of so many nodes for the acceptance by rank.
    alpha: for the predicted speed-up.
    acceptance_by_rank: likewise, the probability that the draft's k-th candidate is the one accepted: what trees
      are predicted with. By default `tpu.acceptance.acceptance_by_rank` of alpha.
    dtype: of weights and activations; 'int8' is int8 weights and bfloat16 activations.
    draft_dtype: of the draft's, where they are others than the target's.
    assumptions: of the model of time.
    data: devices along the batch.
    split_draft: split the draft over the devices too.
    passes: compile the one-token step, the verify pass and the draft step alone, for the
      compiler's count of their bytes.
    tell: called with what is compiled next, in words, since each program takes from seconds to minutes.

  Raises:
    DependencyError: libtpu is not installed.
    SettingError: sizes that no program has, or that do not divide.
  """
  target = shapes.abstract_model(target, dtype)
  deployment = Deployment(
      target=target, drafter=shapes.abstract_drafter(draft, draft_dtype or dtype, target),
      chip=get_chip(chip), topology=topology, batch=batch, input_length=input_length,
      max_decode_len=max_decode_len, assumptions=assumptions, data=data, split_draft=split_draft)
  devices = topology_lib.describe(deployment.chip, topology)
  _check(deployment)
  ranks = _ranks(alpha, acceptance_by_rank, sampling)
  tree = None if draft is None else _tree(deployment, gamma, tree, nodes, ranks)
  predicted = predict(deployment, tree, ranks)
  mesh = partition.make_mesh(devices, data)
  placed = _placed(deployment, mesh)
  settings = Settings(tree=tree, max_decode_len=max_decode_len)

  tell = tell or (lambda words: None)

  weights, caches = _bytes(placed, settings.num_nodes, mesh)
  program, refusal = None, None
  try:
    tell(f'compiling the decode program for {chip} {topology}')
    program = compile_lib.decode_program(placed.target, placed.drafter, settings, sampling, batch, input_length, mesh)
  except compile_lib.DoesNotFit as e:
    refusal = str(e)
  memory = Memory(
      weights=weights, caches=caches, temporaries=max(program.temporaries - caches, 0) if program else None,
      peak=program.peak if program else None, capacity=deployment.chip.usable)
  dims = [x.shape for x in _cache_leaves(placed, settings.num_nodes, mesh)]
  iteration = audit(program.text, dims, _turns(tree)) if program and program.text else None
  traffic = _traffic(deployment, placed, tree, mesh, tell if passes and program else None)
  smallest = deployment if program else smallest_slice(deployment, settings.num_nodes)
  topology_of_smallest = smallest.topology if smallest else None
  return Plan(
      deployment=deployment, tree=tree, sampling=sampling, memory=memory, fits=program is not None,
      smallest_slice=topology_of_smallest, traffic=traffic, iteration=iteration,
      predicted=predicted if program else None, program=program.text if program else '',
      warnings=tuple(_warnings(deployment, program, refusal, topology_of_smallest, iteration, traffic)))


def _ranks(alpha: float | None, acceptance_by_rank: Sequence[float] | None, sampling: Sampling):
  """Acceptance by rank: as given, or assumed for an alpha; None where neither is known."""
  if acceptance_by_rank is None:
    return None if alpha is None else assumed_ranks(alpha, sampling)
  if alpha is not None and float(alpha) != acceptance_by_rank[0]:
    raise SettingError(f'alpha is {alpha}, and the first of acceptance_by_rank {acceptance_by_rank[0]}; they are the '
                       'same figure: leave alpha out.')
  return tuple(acceptance_by_rank)


def _tree(deployment: Deployment, gamma: int | None, tree: Tree | int | None, nodes: int | None, ranks) -> Tree:
  if nodes is None:
    return checked_tree(gamma, tree)
  nodes = whole('nodes', nodes, 1)
  if gamma is not None or tree is not None:
    raise SettingError(f'nodes is {nodes}, and there is a gamma or a tree too; give one of them.')
  if ranks is None:
    raise SettingError(f'nodes is {nodes}; which tree of so many is the fastest depends on alpha or '
                       'acceptance_by_rank: give one of them, or a tree.')
  return best_tree(deployment, nodes, ranks, free=True)


def _turns(tree: Tree | None) -> int:
  """Of a loop within an iteration: a chain is drafted in one, the levels of a tree one after another."""
  return max(tree.num_nodes - 1, 1) if tree is not None and tree.is_chain else 1


def _check(deployment: Deployment) -> None:
  for name in ('batch', 'input_length', 'max_decode_len', 'data'):
    whole(name, getattr(deployment, name), 1)
  if deployment.drafter is not None:
    deployment.drafter.check(deployment.target)
  deployment.target.check_lengths(
      np.ones((deployment.batch, deployment.input_length), np.int32), None, deployment.max_decode_len)
  devices, data = deployment.devices, deployment.data
  if devices % data or deployment.batch % data:
    raise SettingError(f'data is {data}, which must divide the {devices} devices of {deployment.chip.name} '
                     f'{deployment.topology} and the batch of {deployment.batch}.')
  split = {'target': deployment.target, 'draft': deployment.draft if deployment.split_draft else None}
  for name, model in split.items():
    if model is not None and deployment.parts not in (works := partition.possible_parts(model.config)):
      sizes = ', '.join(f'{k} = {v}' for k, v in partition.divided_sizes(model.config).items())
      better = ' or '.join(str(devices // n) for n in works if devices % n == 0)
      raise SettingError(
          f'{devices} devices with data = {data} make {deployment.parts} parts, which do not divide the {name} '
          f"({sizes}); it divides into {', '.join(map(str, works))}: set data = {better}, and a batch that "
          'this divides.')


def _placed(deployment: Deployment, mesh) -> Deployment:
  """The deployment with the sharding of each parameter."""
  drafter = deployment.drafter
  if deployment.draft is not None:
    drafter = drafter.replace(draft=partition.with_shardings(
        deployment.draft, mesh, replicated=not deployment.split_draft))
  elif drafter is not None:
    drafter = compile_lib.whole_on(mesh, drafter)
  return dataclasses.replace(
      deployment, target=partition.with_shardings(deployment.target, mesh), drafter=drafter)


def _cache_leaves(placed: Deployment, nodes: int, mesh):
  sizes = dict(batch=placed.batch, input_length=placed.input_length, cache_length=placed.cache_length(nodes), mesh=mesh)
  models = [placed.target] + ([placed.draft] if placed.draft is not None else [])
  made = [compile_lib.cache_shapes(model, **sizes) for model in models]
  if isinstance(placed.drafter, LayerDrafter):
    made.append(compile_lib.layer_cache_shapes(placed.drafter, **sizes))
  return [x for caches in made for name in ('self', 'cross') for pair in caches.get(name) or () for x in pair.values()]


def _bytes(placed: Deployment, nodes: int, mesh) -> tuple[int, int]:
  """Weights and caches of one device."""
  weights = partition.device_bytes(placed.target.params)
  weights += partition.device_bytes(drafting.weights(placed.drafter))
  return weights, partition.device_bytes(_cache_leaves(placed, nodes, mesh))


def _traffic(deployment: Deployment, placed: Deployment, tree: Tree | None, mesh, tell) -> dict[str, PassTraffic]:
  """By name; without a `tell` nothing is compiled."""
  nodes = 0 if tree is None else tree.num_nodes
  parts: dict[str, tuple[Model | None, Tree | None, int, int, Pass]] = {
      'target_step': (placed.target, None, 1, 0, deployment.target_pass(1, 0))}
  if tree is not None:
    parts['verify_pass'] = (placed.target, tree, nodes + 1, nodes, deployment.target_pass(nodes + 1, nodes))
    tokens = tree.depth if drafting.in_one_pass(deployment.drafter) else 1
    draft_pass = deployment.draft_pass(nodes, tokens)
    if draft_pass is not None:
      parts['draft_step'] = (placed.draft, None, tokens, nodes, draft_pass)
  found = {}
  for name, (model, of_pass, tokens, room, work) in parts.items():
    counts: dict[str, Any] = {}
    if tell is not None and model is not None:  # heads have no pass of their own without the target
      try:
        tell(f"compiling the {name.replace('_', ' ')} alone")
        program = compile_lib.pass_program(
            model, of_pass, deployment.batch, deployment.input_length, deployment.cache_length(room), mesh)
        counts = dict(counted_bytes=program.bytes_accessed, counted_flops=program.flops,
                      audit=audit(program.text) if program.text else None)
      except compile_lib.DoesNotFit:
        pass
    found[name] = PassTraffic(tokens=tokens, work=work, **counts,
                              seconds=deployment.seconds(work, of_draft=name == 'draft_step'))
  return found


def _warnings(deployment: Deployment, program, refusal, smallest, iteration, traffic):
  if refusal:
    yield f'The compiler refuses the program: {_in_gb(refusal)}'
    yield (f'The smallest slice of {deployment.chip.name} whose devices hold it is {smallest}.' if smallest
           else f'No slice of {deployment.chip.name} known here holds it.')
  if program and not program.text:
    yield (f'This jax ({jax.__version__}) cannot print the program that the compiler made for '
           f'{deployment.chip.name}: what it does with the weights is not known.')
  # What a draft of several tokens reads several times: the draft, and of heads the target's vocabulary product too.
  often = ('draft/', *(('target/decoder/logits_dense/', 'target/token_embedder/') if isinstance(
      deployment.drafter, HeadsDrafter) else ()))
  audits = [('decode program', iteration)] + [(name, t.audit) for name, t in traffic.items()]
  for name, found in audits:
    if found is None:
      continue
    if found.rewritten:
      yield (f'{name}: {len(found.rewritten)} weights are copied, transposed or converted, first '
             f'{found.rewritten[0]}')
    if found.copied_caches:
      yield f'{name}: {len(found.copied_caches)} whole caches are copied, first {found.copied_caches[0][:80]}'
    twice = [path for path, reads in found.reads.items()
             if reads > 1.01 and not (path.startswith(often) and name == 'decode program')]
    if twice:
      yield f'{name}: {len(twice)} weights are read more than once, first {twice[0]}'


def _in_gb(message: str) -> str:
  """The beginning of a compiler's message; its G and M are of 1024, ours of 1000."""
  units = {'G': GIB, 'M': GIB / 1024}
  return re.sub(r'\b(\d+(?:\.\d+)?)([GM])\b', lambda m: f'{float(m[1]) * units[m[2]] / 1e9:.2f} GB',
                message.split('. HLO module')[0][:200])
