"""What a compiled program does with the weights: how often it reads each, and whether it rewrites any."""

import collections
import dataclasses
import re

from specdec_jax.tpu import hlo

_ALIASES = ('bitcast', 'copy-done', 'slice-done', 'optimization-barrier', 'opt-barrier')
_PREFETCHES = ('copy-start', 'slice-start')
_LOOKUPS = ('gather', 'dynamic-slice')
_PRODUCTS = ('convolution', 'dot')
_COLLECTIVES = re.compile(r'(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(-start)?')


@dataclasses.dataclass(frozen=True, kw_only=True)
class Audit:
  """A program's one pass, or one iteration of its decoding loop.

  Attributes:
    reads: bytes of each weight read from HBM, over its size; {'target/decoder/...': 1.0}.
    sizes: bytes of each of those weights, on one device.
    rewritten: weights that the program copies, transposes or converts, anywhere in it.
    copied_caches: whole caches that are copied within HBM in the loop, or made anew there.
    collectives: how many of each kind an iteration, {'all-reduce': 72}.
  """

  reads: dict[str, float]
  sizes: dict[str, int]
  rewritten: tuple[str, ...]
  copied_caches: tuple[str, ...]
  collectives: dict[str, int]

  def bytes_read(self, owner: str) -> float:
    """Of all weights of 'target', 'draft' or, in a pass alone, 'model'."""
    return sum(times * self.sizes[path] for path, times in self.reads.items()
               if path.startswith(owner + '/'))


@dataclasses.dataclass(frozen=True)
class _Weight:
  path: str
  array: hlo.Array
  on_chip: bool = False


def audit(text: str, cache_dims=(), inner_trips: int = 1) -> Audit:
  """Reads the compiled text; weights are its kernels and embeddings.

  Args:
    text: `compiled.as_text()` of the decode program or of a stand-alone pass.
    cache_dims: shapes of the caches, such as (1, 64, 137, 64).
    inner_trips: how often a loop within the decoding loop turns (the text does not say): gamma - 1.
  """
  module = hlo.parse(text)
  walk = _Walk(module, {tuple(d) for d in cache_dims}, inner_trips)
  walk.computation(module.entry, [], 1, False)
  loop = walk.loops[-1] if walk.loops else None
  reads, collectives = (walk.reads, walk.collectives) if loop is None else loop
  return Audit(reads=dict(reads), sizes=walk.sizes, rewritten=tuple(walk.rewritten),
               copied_caches=tuple(walk.copied_caches), collectives=dict(collectives))


class _Walk:
  """Follows the weights from the program's parameters through tuples, loops and prefetches."""

  def __init__(self, module, cache_dims, inner_trips):
    self.module, self.cache_dims, self.inner_trips = module, cache_dims, inner_trips
    self.sorted_dims = [sorted(dims) for dims in cache_dims]
    self.reads, self.collectives, self.sizes = collections.Counter(), collections.Counter(), {}
    self.rewritten, self.copied_caches, self.loops = [], [], []

  def computation(self, name, arguments, times, in_loop):
    values = {}
    for i in self.module.computations[name]:
      values[i.name] = self.instruction(i, values, arguments, times, in_loop)

  def instruction(self, i, values, arguments, times, in_loop):
    """What the result holds of weights: a _Weight, a list for a tuple, or None."""
    given = [values.get(o) for o in i.operands]
    weights = [g for g in given if isinstance(g, _Weight)]
    if i.op == 'parameter':
      number = int(re.findall(r'^\d+', i.rest)[0])
      return arguments[number] if arguments else _named(i)
    if i.op == 'tuple':
      return given
    if i.op == 'get-tuple-element':
      index = int(re.findall(r'index=(\d+)', i.rest)[0])
      return given[0][index] if isinstance(given[0], list) else None
    if i.op == 'while':
      return self._while(i, given, times, in_loop)
    if i.op == 'call':
      self.computation(i.called('to_apply'), given, times, in_loop)
      return None
    for kind in self._collectives(i):
      self.collectives[kind] += times
    if in_loop and self._makes_a_cache(i):
      self.copied_caches.append(f'{i.name}: {i.type}')
    if i.op in _PREFETCHES and weights:
      return self._prefetch(i, weights[0], times)
    if i.op in _ALIASES:
      return given[0] if given else None
    if i.op == 'custom-call' and 'ConcatBitcast' in i.rest:  # joins the slices of a prefetch
      return weights[0] if weights else None
    for position, weight in enumerate(given):
      if isinstance(weight, _Weight):
        self._use(i, position, weight, times)
    return self._rewrite(i, given)

  def _makes_a_cache(self, i) -> bool:
    """Whether the result is a whole cache in HBM that is not the old one with some places written."""
    if i.op == 'copy':
      return any(sorted(a.dims) in self.sorted_dims and not a.on_chip for a in i.arrays)
    made = sum(a.dims in self.cache_dims and not a.on_chip for a in i.arrays)
    if i.op != 'fusion':
      return i.op in _LOOKUPS and made > 0
    body = self.module.computations.get(i.called('calls'), ())
    return made > sum(j.op == 'dynamic-update-slice' and j.arrays[0].dims in self.cache_dims for j in body)

  def _collectives(self, i) -> list[str]:
    """The kind of a collective, or of those within what an instruction calls: tpu7x has its sparse cores do them."""
    if collective := _COLLECTIVES.fullmatch(i.op):
      return [collective[1]]
    called = i.called('called_computations') or i.called('calls')
    return [kind for j in self.module.computations.get(called, ()) for kind in self._collectives(j)]

  def _while(self, i, given, times, in_loop):
    outer = (self.reads, self.collectives)
    self.reads, self.collectives = collections.Counter(), collections.Counter()
    inner = times * self.inner_trips if in_loop else 1
    self.computation(i.called('body'), given[:1], inner, True)
    if in_loop:
      self.reads, self.collectives = outer[0] + self.reads, outer[1] + self.collectives
    else:
      if self.reads or self.collectives:
        self.loops.append((self.reads, self.collectives))
      self.reads, self.collectives = outer
    return given[0]

  def _prefetch(self, i, weight, times):
    target = i.arrays[0] if i.op == 'copy-start' else i.arrays[1]
    # The first weight of a program is fetched at the end of its run before.
    if not weight.on_chip and 'cross_program_prefetch_index' not in i.rest:
      self._read(weight, target.bytes, times)
    if not target.on_chip and not weight.on_chip:
      self.rewritten.append(f'{weight.path}: {i.op} to HBM')
    return dataclasses.replace(weight, on_chip=True)

  def _use(self, i, position, weight, times):
    if weight.on_chip:
      return
    lookup = self._only(_LOOKUPS, i, position)
    self._read(weight, 0 if lookup else weight.array.bytes, times)

  def _read(self, weight, size, times):
    self.sizes[weight.path] = weight.array.bytes
    self.reads[weight.path] += times * size / weight.array.bytes

  def _only(self, ops, i, position) -> bool:
    """Whether nothing but such operations use an instruction's operand."""
    fused = i.called('calls')
    if not fused:
      return i.op in ops
    body = self.module.computations[fused]
    parameter = next(j.name for j in body if j.op == 'parameter' and j.rest.startswith(f'{position})'))
    users = [j for j in body if parameter in j.operands]
    return bool(users) and all(self._only(ops, j, j.operands.index(parameter)) for j in users)

  def _rewrite(self, i, given):
    """A result as large as a weight it is made from, and neither a product nor rows of a table."""
    weights = [(at, g) for at, g in enumerate(given) if isinstance(g, _Weight)]
    if not weights or self._multiplies(i):
      return None
    for position, weight in weights:
      size = weight.array.bytes
      if any(2 * a.bytes >= size for a in i.arrays) and not self._only(('gather',), i, position):
        self.rewritten.append(f'{weight.path}: {i.op} {i.name}')
        return dataclasses.replace(weight, on_chip=i.arrays[0].on_chip)
    return None

  def _multiplies(self, i) -> bool:
    fused = i.called('calls')
    if not fused:
      return i.op in _PRODUCTS
    return any(self._multiplies(j) for j in self.module.computations[fused])


def _named(i: hlo.Instruction) -> _Weight | None:
  """The weight that a parameter of the program is, by the name that jax gave it."""
  found = re.search(r'op_name="(\w+(?:\.\w+)*)\.params((?:\[[^\]]*\])+)"', i.rest)
  if not found:
    return None
  owner = 'draft' if 'draft' in found[1] else found[1]
  path = [owner, *re.findall(r'\w+', found[2])]
  return _Weight('/'.join(path), i.arrays[0]) if path[-1] in ('kernel', 'embedding') else None
