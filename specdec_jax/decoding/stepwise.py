"""A decode that comes back to the host after every iteration, for texts that are shown as they are made."""

import functools
from collections.abc import Iterator
from typing import Any

import jax

from specdec_jax import compilation
from specdec_jax.decoding import state as rows_of
from specdec_jax.decoding.loop import advance
from specdec_jax.decoding.settings import Settings
from specdec_jax.decoding.state import State
from specdec_jax.results import Result, Status


def steps(arguments: tuple[Any, ...], settings: Settings) -> Iterator[Result]:
  """The results so far, on the host, after every iteration until all rows have ended; arguments of `decode_loop`."""
  target, drafter, request, seed, ids, standardizer, lenience = arguments
  state = _start(target, drafter, request, seed, ids, settings)
  running = True
  while running:
    state, result = _step(target, drafter, standardizer, lenience, settings, state)
    result = jax.device_get(result).with_short_trace()
    running = bool((result.status == Status.RUNNING).any())
    yield result


@functools.partial(compilation.jit, static_argnames='settings')
def _start(target, drafter, request, seed, ids, settings: Settings) -> State:
  return rows_of.start(target, drafter, request, seed, ids, settings, settings.room)


@functools.partial(compilation.jit, static_argnames='settings', donate_argnames='state')
def _step(target, drafter, standardizer, lenience, settings: Settings, state: State) -> tuple[State, Result]:
  state, _ = advance(target, drafter, standardizer, lenience, settings, state, len(state.status), most=1)
  return state, rows_of.finish(state, settings)
