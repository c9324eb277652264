"""The compiled loop by hand: its arguments, and a run of it that is compiled afresh."""

import jax
import numpy as np

from specdec_jax.decoding import Settings, decode_loop, inputs
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer
from specdec_jax.tree import Tree


def arguments(target, drafter, tokens, *, gamma=0, tree=None, sampling=Sampling(), max_decode_len=16, trace=False):
  """Positional arguments of `decode_loop`, and its static settings."""
  request, ids = inputs.request(target, drafter, tokens, None, None, max_decode_len, buckets=())
  tree = Tree.chain(gamma) if gamma else tree
  settings = Settings(tree=tree, max_decode_len=max_decode_len, trace=trace)
  return (target, drafter, request, np.uint32(0), ids, Standardizer.of_target(target, sampling), np.float32(1)), settings


def traced(*args, **options):
  """The loop's jaxpr and its positional arguments."""
  positional, settings = arguments(*args, **options)
  jaxpr = jax.make_jaxpr(lambda *a: decode_loop.__wrapped__(*a, settings=settings))(*positional).jaxpr
  return jaxpr, positional


def afresh(*args, **options):
  """A decode by a program compiled for this call, so that a patched part of the loop is the one that runs."""
  positional, settings = arguments(*args, **options)
  return jax.device_get(jax.jit(lambda *a: decode_loop.__wrapped__(*a, settings=settings))(*positional))
