"""A loop that goes on: rows that have ended are handed out, and others take their places.

Nothing here knows what an iteration is: the programs are `loop.advance` and the rows of `state`.
"""

import collections
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jaxtyping import Int

from specdec_jax import checks, compilation
from specdec_jax.decoding import inputs, state as rows_of
from specdec_jax.decoding.loop import advance, iterate
from specdec_jax.decoding.settings import Settings
from specdec_jax.decoding.state import State
from specdec_jax.drafters.interface import Drafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.results import Result
from specdec_jax.standardizer import Standardizer

ROWS_TO_A_RETURN = 8  # of so many rows one is waited for: see `Running`


class Running:
  """B rows that decode side by side; a row that has ended is free for another input at once.

  Inputs are encoded B at a time, as in a batch, and wait on the device until a row is free. The loop comes back as
  soon as `hand_back` more rows have ended. Everything that a row holds is replaced with it, so its result is that of
  any other batching. Inputs may be padded to several lengths: for each of them an encoder is compiled, and one loop
  for all.

  Attributes:
    rows: B.
    length: of the longest input, in tokens: cross-attention and prompts have so many slots, whatever is in them.
    hand_back: how many rows have to end before the loop comes back; an eighth of B, at least 1, by default.
    iterations: so far; `iterations * rows` are the row-iterations that were paid for.
  """

  def __init__(self, target: Model, drafter: Drafter | None, settings: Settings, standardizer: Standardizer, *,
               rows: int, length: int, seed: np.uint32, lenience: float = 1.0, hand_back: int | None = None):
    self.rows, self.length = checks.whole('rows', rows, 1), checks.whole('length', length, 1)
    self.hand_back = checks.whole('hand_back', hand_back or max(1, rows // ROWS_TO_A_RETURN), 1, rows)
    self.iterations = 0
    self._models = target, drafter
    self._settings, self._standardizer, self._seed = settings, standardizer, seed
    self._lenience = np.float32(lenience)
    self._tags: list[Any] = [None] * rows  # of the row's input; None where it is free
    self._waiting: collections.deque[tuple[State, list]] = collections.deque()  # new rows, and tags of those left
    self._state, self._shardings = self._empty()
    self._advancing: tuple[jax.Array, Result] | None = None

  @property
  def running(self) -> list:
    """Tags of the inputs that have a row."""
    return [tag for tag in self._tags if tag is not None]

  @property
  def waiting(self) -> list:
    """Tags of the inputs that are encoded and have no row yet."""
    return [tag for _, left in self._waiting for _, tag in left]

  @property
  def hungry(self) -> bool:
    """Whether rows are free that no input waits for."""
    return len(self.running) + len(self.waiting) < self.rows

  def encode(self, tags: Sequence[Any], tokens: Int[np.ndarray, 'n S'], ids: Int[np.ndarray, ' n'],
             lengths: Int[np.ndarray, ' n'] | None = None) -> None:
    """Encodes up to B inputs, which then wait for free rows; returns before the device has done it.

    Args:
      tags: what `ended` calls them; not None.
      tokens, ids, lengths: as in `speculative_decode`, padded to at most `length` tokens.
    """
    if not 0 < len(tags) <= self.rows or tokens.shape[1] > self.length:
      raise SettingError(f'{len(tags)} inputs of {tokens.shape[1]} tokens do not fit {self.rows} rows of '
                         f'{self.length}.')
    request, ids = self._request(tokens, ids, lengths)
    new = _encode(*self._models, request, self._seed, ids, self._settings)
    self._waiting.append((new, list(enumerate(tags))))

  def forget_waiting(self) -> None:
    """Nothing waits any more."""
    self._waiting.clear()

  def compile(self, tokens: Int[np.ndarray, 'n S'], ids: Int[np.ndarray, ' n'],
              lengths: Int[np.ndarray, ' n'] | None = None) -> None:
    """Compiles what inputs of this shape need, and runs all of it but an iteration."""
    request, ids = self._request(tokens, ids, lengths)
    new = _encode(*self._models, request, self._seed, ids, self._settings)
    self._place(new, {})
    self._iterate(0)
    jax.block_until_ready(self._state.status)

  def advance(self) -> None:
    """Gives the free rows to inputs that wait, and iterates; returns before the device has done it."""
    free = collections.deque(row for row, tag in enumerate(self._tags) if tag is None)
    while free and self._waiting:
      new, left = self._waiting[0]
      placed = {}
      while free and left and len(placed) < self.hand_back:
        row = free.popleft()
        placed[row], self._tags[row] = left.pop(0)
      if not left:
        self._waiting.popleft()
      self._place(new, placed)
    self._advancing = self._iterate(min(self.rows, len(free) + self.hand_back))

  def ended(self) -> tuple[list, Result]:
    """Waits for the last `advance`: tags of the inputs that have ended, whose rows are free now, and their results."""
    assert self._advancing is not None, 'advance comes first'
    iterations, result = jax.device_get(self._advancing)
    self._advancing = None
    self.iterations += int(iterations)
    rows = [row for row, tag in enumerate(self._tags) if tag is not None and result.status[row]]
    tags = [self._tags[row] for row in rows]
    for row in rows:
      self._tags[row] = None
    return tags, jax.tree.map(lambda x: x[np.array(rows, int)], result)

  def _place(self, new: State, placed: dict[int, int]) -> None:
    """Rows of this loop -> of the new ones; at most `hand_back`."""
    chosen, rows = np.zeros(self.hand_back, np.int32), np.full(self.hand_back, self.rows, np.int32)
    rows[:len(placed)], chosen[:len(placed)] = list(placed), list(placed.values())
    self._state = _put(self._state, new, chosen, rows, self._shardings)

  def _iterate(self, until: int) -> tuple[jax.Array, Result]:
    self._state, iterations, result = _advance(
        *self._models, self._standardizer, self._lenience, self._settings, self._state, np.int32(until),
        self._shardings)
    return iterations, result

  def _empty(self) -> tuple[State, tuple | None]:
    """Rows that do not run, and on a mesh how they lie there: as an iteration leaves them."""
    request, ids = self._request(np.ones((1, self.length), np.int32))

    def iterated(target, drafter, request, ids):
      state = rows_of.start(target, drafter, request, jnp.uint32(self._seed), ids, self._settings, self._settings.room)
      return iterate(target, drafter, self._standardizer, self._lenience, self._settings, state)

    arguments = *self._models, request, ids
    shapes, shardings = jax.eval_shape(iterated, *arguments), None
    if isinstance(getattr(request.tokens, 'sharding', None), NamedSharding):
      shardings = tuple(jax.tree.leaves(compilation.jit(iterated).lower(*arguments).compile().output_shardings))
    return jax.jit(lambda: _laid(rows_of.idle(shapes), shardings))(), shardings

  def _request(self, tokens, ids=None, lengths=None):
    """Of B rows: the last input fills up what is missing."""
    fill = lambda x: None if x is None else np.concatenate([x, np.repeat(x[-1:], self.rows - len(x), 0)])
    target, drafter = self._models
    return inputs.request(target, drafter, fill(tokens), fill(lengths), fill(ids), self._settings.max_decode_len, ())


@functools.partial(compilation.jit, static_argnames='settings')
def _encode(target, drafter, request, seed, ids, settings: Settings) -> State:
  return rows_of.start(target, drafter, request, seed, ids, settings, 0)


@functools.partial(jax.jit, static_argnames='shardings', donate_argnames='state')
def _put(state: State, new: State, chosen, rows, shardings) -> State:
  return _laid(rows_of.put(state, new, chosen, rows), shardings)


@functools.partial(compilation.jit, static_argnames=('settings', 'shardings'), donate_argnames='state')
def _advance(target, drafter, standardizer, lenience, settings: Settings, state: State, until,
             shardings) -> tuple[State, jax.Array, Result]:
  state, iterations = advance(target, drafter, standardizer, lenience, settings, state, until)
  return _laid(state, shardings), iterations, rows_of.finish(state, settings)


def _laid(state: State, shardings) -> State:
  """The state as it lay before, so that the next call finds the program that was compiled for it."""
  if shardings is None:
    return state
  leaves, structure = jax.tree.flatten(state)
  return jax.tree.unflatten(structure, map(jax.lax.with_sharding_constraint, leaves, shardings))
