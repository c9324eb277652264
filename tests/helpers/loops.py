"""The compiled loop by hand: its arguments, and a run of it that is compiled afresh."""

import jax

from specdec_jax.decoding import Settings, decode_loop, loop_arguments
from specdec_jax.sampling import Sampling
from specdec_jax.tree import Tree


def arguments(target, drafter, tokens, *, gamma=0, tree=None, sampling=Sampling(), max_decode_len=16, trace=False):
  """Positional arguments of `decode_loop`, and its static settings."""
  tree = Tree.chain(gamma) if gamma else tree
  settings = Settings(tree=tree, max_decode_len=max_decode_len, trace=trace)
  return loop_arguments(target, drafter, tokens, settings, sampling, buckets=()), settings


def traced(*args, **options):
  """The loop's jaxpr and its positional arguments."""
  positional, settings = arguments(*args, **options)
  jaxpr = jax.make_jaxpr(lambda *a: decode_loop.__wrapped__(*a, settings=settings))(*positional).jaxpr
  return jaxpr, positional


def afresh(*args, **options):
  """A decode by a program compiled for this call, so that a patched part of the loop is the one that runs."""
  positional, settings = arguments(*args, **options)
  return jax.device_get(jax.jit(lambda *a: decode_loop.__wrapped__(*a, settings=settings))(*positional))
