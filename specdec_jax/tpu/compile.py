"""The decode program and its passes, compiled for a TPU from shapes: nothing is allocated."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

from specdec_jax import compilation
from specdec_jax.decoding import Settings, decode_loop, loop
from specdec_jax.drafters.heads import LayerDrafter
from specdec_jax.drafters.interface import Proposal, Request, Text
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


class DoesNotFit(Exception):
  """The compiler refuses the program: it needs more memory than the device has."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
  """A compiled program, as one device runs it.

  Attributes:
    text: of the optimised program; '' where this jax cannot read what the compiler made.
    arguments, outputs, aliased, temporaries, code: bytes of HBM.
    bytes_accessed, flops: the compiler's count. It counts the body of a loop once, and what it
      fetches ahead into on-chip memory up to four times.
  """

  text: str
  arguments: int
  outputs: int
  aliased: int
  temporaries: int
  code: int
  bytes_accessed: float
  flops: float

  @property
  def peak(self) -> int:
    return self.arguments + self.outputs - self.aliased + self.temporaries + self.code


def decode_program(target, drafter, settings: Settings, sampling: Sampling, batch: int, input_length: int,
                   mesh) -> Program:
  """`decoding.decode_loop` itself; models are of shapes with shardings on `mesh`."""
  rows = functools.partial(_struct, mesh=mesh, spec=P('data'))
  whole = functools.partial(_struct, mesh=mesh, spec=P())
  request = Request(tokens=rows((batch, input_length), jnp.int32), lengths=rows((batch,), jnp.int32))
  standardizer = jax.tree.map(lambda x: whole((), x.dtype), Standardizer.of_target(target, sampling))
  return _compile(decode_loop.lower(
      target, drafter, request, whole((), jnp.uint32), rows((batch,), jnp.uint32), standardizer,
      whole((), jnp.float32), settings=settings))


def pass_program(model, tree: Tree | None, batch: int, input_length: int, cache_length: int, mesh) -> Program:
  """One pass of a model alone, over the last token and the nodes of a tree, if there is one; its cache stays in place.

  A path of a tree is committed, too, as at the end of an iteration.
  """
  rows = functools.partial(_struct, mesh=mesh, spec=P('data'))
  cache = cache_shapes(model, batch, input_length, cache_length, mesh)
  text = Text(history=rows((batch, cache_length), jnp.int32), position=rows((batch,), jnp.int32),
              prefix_end=rows((batch,), jnp.int32))
  nodes, depth = (0, 0) if tree is None else (tree.num_nodes, tree.depth)
  return _compile(_pass.lower(
      model, cache, text, rows((batch, nodes), jnp.int32), rows((batch, depth), jnp.int32), tree=tree))


def cache_shapes(model, batch: int, input_length: int, cache_length: int, mesh):
  """What `prefill` makes, heads along 'model' where the model is split."""
  split = any('model' in x.sharding.spec for x in jax.tree.leaves(model.params))
  shapes = jax.eval_shape(lambda m, t: m.prefill(t, cache_length), model,
                          jax.ShapeDtypeStruct((batch, input_length), jnp.int32))

  def place(x):
    heads = len(x.shape) == 4 and x.shape[1] == model.config.num_heads and split
    return _struct(x.shape, x.dtype, mesh, P('data', 'model') if heads else P('data'))

  return jax.tree.map(place, shapes)


def layer_cache_shapes(heads: LayerDrafter, batch: int, input_length: int, cache_length: int, mesh):
  """Likewise of a layer of heads, which is whole on every device."""
  config = heads.config
  encoded = jax.ShapeDtypeStruct((batch, input_length, config.hidden_dim), config.dtype) if config.encoded else None
  visible = jax.ShapeDtypeStruct((batch, input_length), bool)
  made = jax.eval_shape(lambda h, e, v: h.apply('prefill', e, v, batch, cache_length), heads, encoded, visible)
  return jax.tree.map(lambda x: _struct(x.shape, x.dtype, mesh, P('data')), made)


def whole_on(mesh, tree):
  """Shapes of which every device has all."""
  return jax.tree.map(lambda x: _struct(x.shape, x.dtype, mesh, P()), tree)


@functools.partial(compilation.jit, donate_argnames='cache', static_argnames='tree')
def _pass(model, cache, text: Text, tokens, path, tree: Tree | None):
  (logits, cache, block), _ = loop.target_pass(model, cache, text, Proposal(tokens, None), tree)
  return logits, cache if block is None else model.commit(cache, block, path + 1, text.position + 1)


def _struct(shape, dtype, mesh, spec):
  return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))


def _compile(lowered) -> Program:
  try:
    compiled = lowered.compile()
  except jax.errors.JaxRuntimeError as e:
    if 'RESOURCE_EXHAUSTED' not in str(e):
      raise
    raise DoesNotFit(' '.join(str(e).split())) from None
  memory, cost = compiled.memory_analysis(), compiled.cost_analysis()
  return Program(
      text=_text(compiled), arguments=memory.argument_size_in_bytes,
      outputs=memory.output_size_in_bytes, aliased=memory.alias_size_in_bytes,
      temporaries=memory.temp_size_in_bytes, code=memory.generated_code_size_in_bytes,
      bytes_accessed=cost['bytes accessed'], flops=cost['flops'])


def _text(compiled) -> str:
  try:
    return compiled.as_text()
  except jax.errors.JaxRuntimeError:  # jax 0.10.2, of programs for several tpu7x devices
    return ''
