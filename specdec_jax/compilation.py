"""`jax.jit`, with the options that a kind of device wants of its compiler: for all programs that run a model."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax

# By jax's name of a kind of device. Without the option this compiler wants kernels in tiles of 16 x 128, but takes
# arguments in tiles of 8 x 128 only: it would copy each kernel of the decoder before the loop, in every call.
OPTIONS: Mapping[str, Mapping[str, bool]] = {
    'TPU7x': {'xla_tpu_control_large_2nd_minor_layout_for_x16': False}}


def options_for(arguments: Any) -> dict[str, bool]:
  """The options of the devices that a program's arguments lie on, or are planned for; {} where none lies anywhere.

  Args:
    arguments: a pytree of arrays, or of jax.ShapeDtypeStructs with shardings.
  """
  for leaf in jax.tree.leaves(arguments):
    sharding = None if isinstance(leaf, jax.core.Tracer) else getattr(leaf, 'sharding', None)
    if sharding is not None:
      return dict(OPTIONS.get(next(iter(sharding.device_set)).device_kind, {}))
  return {}


class jit:
  """As `jax.jit`, a program for each kind of device with its options; `lower` has them, too."""

  def __init__(self, function: Callable, **settings: Any):
    functools.update_wrapper(self, function)
    self._function, self._settings = function, settings
    self._by_options: dict[tuple, Any] = {}

  def __call__(self, *args, **kwargs):
    return self._for(args, kwargs)(*args, **kwargs)

  def lower(self, *args, **kwargs):
    """See `jax.stages.Wrapped.lower`; what it returns compiles with the options."""
    return self._for(args, kwargs).lower(*args, **kwargs)

  def _for(self, args, kwargs):
    options = options_for((args, kwargs))
    key = tuple(sorted(options.items()))
    if key not in self._by_options:
      self._by_options[key] = jax.jit(self._function, compiler_options=options or None, **self._settings)
    return self._by_options[key]

  def _cache_size(self) -> int:
    """Programs that were compiled."""
    return sum(program._cache_size() for program in self._by_options.values())
