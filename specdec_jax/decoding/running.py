"""A loop that goes on: rows that have ended are handed out, and others take their places.

Nothing here knows what an iteration is: the programs are `loop.advance` and the rows of `state`.
"""

import collections
import dataclasses
import functools
from collections.abc import Iterable, Sequence
from typing import Any

import jax
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


@dataclasses.dataclass(eq=False)
class _Input:
  """An input that was encoded: what its user calls it, and the results of its samples that have ended."""

  tag: Any
  ended: dict[int, Result] = dataclasses.field(default_factory=dict)


class Running:
  """B rows that decode side by side; a row that has ended is free for another input at once.

  Inputs are encoded B at a time, as in a batch, and wait on the device until a row is free. The loop comes back as
  soon as `hand_back` more rows have ended. Everything that a row holds is replaced with it, so its result is that of
  any other batching. Inputs may be padded to several lengths: for each of them an encoder is compiled, and one loop
  for all. The samples of an input are rows that are placed from the same encoded one, so its encoder runs once.

  Attributes:
    rows: B.
    length: of the longest input, in tokens: cross-attention and prompts have so many slots, whatever is in them.
    prefix_length: of the longest target prefix, in tokens; 0 where there are none.
    hand_back: how many rows have to end before the loop comes back; an eighth of B, at least 1, by default.
    iterations: so far; `iterations * rows` are the row-iterations that were paid for.
  """

  def __init__(self, target: Model, drafter: Drafter | None, settings: Settings, standardizer: Standardizer, *,
               rows: int, length: int, seed: np.uint32, prefix_length: int = 0, lenience: float = 1.0,
               hand_back: int | None = None):
    self.rows, self.length = checks.whole('rows', rows, 1), checks.whole('length', length, 1)
    self.prefix_length = checks.whole('prefix_length', prefix_length, 0)
    self.hand_back = checks.whole('hand_back', hand_back or max(1, rows // ROWS_TO_A_RETURN), 1, rows)
    self.iterations = 0
    self._models = target, drafter
    self._samples, self._settings = settings.num_samples, dataclasses.replace(settings, num_samples=1)
    self._standardizer, self._seed, self._lenience = standardizer, seed, np.float32(lenience)
    self._rows: list[tuple[_Input, int] | None] = [None] * rows  # whose they are, and which sample; None: free
    # New rows, and what of them still waits: (place there, input, sample).
    self._waiting: collections.deque[tuple[State, list[tuple[int, _Input, int]]]] = collections.deque()
    self._state, self._shardings = self._empty()
    self._advancing: tuple[jax.Array, Result] | None = None

  @property
  def running(self) -> list:
    """Tags of the inputs that have a row."""
    return _tags(row[0] for row in self._rows if row is not None)

  @property
  def waiting(self) -> list:
    """Tags of the inputs that are encoded and of which a sample has no row yet."""
    return _tags(entry for _, left in self._waiting for _, entry, _ in left)

  @property
  def hungry(self) -> bool:
    """Whether rows are free that no input waits for."""
    return self._rows.count(None) > sum(len(left) for _, left in self._waiting)

  def encode(self, tags: Sequence[Any], tokens: Int[np.ndarray, 'n S'], ids: Int[np.ndarray, ' n'],
             lengths: Int[np.ndarray, ' n'] | None = None, prefix: Int[np.ndarray, 'n P'] | None = None,
             prefix_lengths: Int[np.ndarray, ' n'] | None = None) -> None:
    """Encodes up to B inputs, which then wait for free rows; returns before the device has done it.

    Args:
      tags: what `ended` calls them.
      tokens, ids, lengths: as in `speculative_decode`, padded to at most `length` tokens.
      prefix, prefix_lengths: `target_prefix` and its lengths, padded to `prefix_length`; None where that is 0.
    """
    if not 0 < len(tags) <= self.rows or tokens.shape[1] > self.length:
      raise SettingError(f'{len(tags)} inputs of {tokens.shape[1]} tokens do not fit {self.rows} rows of '
                         f'{self.length}.')
    request, ids = self._request(tokens, ids, lengths, prefix, prefix_lengths)
    new = _encode(*self._models, request, self._seed, ids, self._settings)
    self._waiting.append((new, [(place, entry, sample) for place, entry in enumerate(map(_Input, tags))
                                for sample in range(self._samples)]))

  def forget_waiting(self) -> None:
    """No input waits any more of which no sample has had a row."""
    begun = {row[0] for row in self._rows if row is not None}
    left = [(new, [w for w in left if w[1] in begun or w[1].ended]) for new, left in self._waiting]
    self._waiting = collections.deque((new, kept) for new, kept in left if kept)

  def compile(self, tokens: Int[np.ndarray, 'n S'], ids: Int[np.ndarray, ' n'],
              lengths: Int[np.ndarray, ' n'] | None = None, prefix: Int[np.ndarray, 'n P'] | None = None,
              prefix_lengths: Int[np.ndarray, ' n'] | None = None) -> None:
    """Compiles what inputs of this shape need, and runs all of it but an iteration."""
    request, ids = self._request(tokens, ids, lengths, prefix, prefix_lengths)
    new = _encode(*self._models, request, self._seed, ids, self._settings)
    self._place(new, [])
    self._iterate(0)
    jax.block_until_ready(self._state.status)

  def advance(self) -> None:
    """Gives the free rows to inputs that wait, and iterates; returns before the device has done it."""
    free = collections.deque(row for row, of in enumerate(self._rows) if of is None)
    while free and self._waiting:
      new, left = self._waiting[0]
      placed = []
      while free and left and len(placed) < self.hand_back:
        row, (place, entry, sample) = free.popleft(), left.pop(0)
        self._rows[row] = entry, sample
        placed.append((row, place, sample))
      if not left:
        self._waiting.popleft()
      self._place(new, placed)
    self._advancing = self._iterate(min(self.rows, len(free) + self.hand_back))

  def ended(self) -> tuple[list, Result]:
    """Waits for the last `advance`: the inputs that have ended with it, and frees the rows that have.

    Returns:
      The tags of n inputs of which all samples have ended, and their results: rows b0 s0, b0 s1, ... of K samples.
    """
    assert self._advancing is not None, 'advance comes first'
    iterations, result = jax.device_get(self._advancing)
    self._advancing = None
    self.iterations += int(iterations)
    rows_of_result = lambda start, stop: jax.tree.map(lambda x: x[start:stop], result)
    whole = []
    for row, of in enumerate(self._rows):
      if of is not None and result.status[row]:
        (entry, sample), self._rows[row] = of, None
        entry.ended[sample] = rows_of_result(row, row + 1)
        if len(entry.ended) == self._samples:
          whole.append(entry)
    parts = [entry.ended[sample] for entry in whole for sample in range(self._samples)]
    return _tags(whole), jax.tree.map(lambda *rows: np.concatenate(rows), rows_of_result(0, 0), *parts)

  def _place(self, new: State, placed: list[tuple[int, int, int]]) -> None:
    """Puts in at most `hand_back` rows: (row of this loop, place among the new ones, sample)."""
    nothing = (self.rows, 0, 0)
    rows, chosen, samples = np.array(placed + [nothing] * (self.hand_back - len(placed)), np.int32).T
    self._state = _put(self._state, new, chosen, samples, rows, self._shardings)

  def _iterate(self, until: int) -> tuple[jax.Array, Result]:
    self._state, iterations, result = _advance(
        *self._models, self._standardizer, self._lenience, self._settings, self._state, np.int32(until),
        self._shardings)
    return iterations, result

  def _empty(self) -> tuple[State, tuple | None]:
    """Rows that do not run, and on a mesh how they lie there: as an iteration leaves them."""
    none = (np.zeros((1, self.prefix_length), np.int32), np.zeros(1, np.int32)) if self.prefix_length else ()
    request, ids = self._request(np.ones((1, self.length), np.int32), None, None, *none)
    arguments = *self._models, request, self._seed, ids
    leaves, structure = jax.tree.flatten(_begun.eval_shape(*arguments, self._settings))
    shardings = None
    if isinstance(getattr(request.tokens, 'sharding', None), NamedSharding):
      iterated = _iterated.lower(*arguments, self._standardizer, self._lenience, self._settings).compile()
      shardings = tuple(jax.tree.leaves(iterated.output_shardings))
    return _idle(structure, tuple(leaves), shardings), shardings

  def _request(self, tokens, ids=None, lengths=None, prefix=None, prefix_lengths=None):
    """Of B rows: the last input fills up what is missing."""
    fill = lambda x: None if x is None else np.concatenate([x, np.repeat(x[-1:], self.rows - len(x), 0)])
    target, drafter = self._models
    return inputs.request(target, drafter, fill(tokens), fill(lengths), fill(ids), self._settings.max_decode_len, (),
                          fill(prefix), fill(prefix_lengths))


def _tags(entries: Iterable[_Input]) -> list:
  """Of each input once, in their order."""
  return [entry.tag for entry in dict.fromkeys(entries)]


@functools.partial(jax.jit, static_argnames='settings')
def _begun(target, drafter, request, seed, ids, settings: Settings) -> State:
  """Rows with their room: an iteration changes no shape."""
  return rows_of.start(target, drafter, request, seed, ids, settings, settings.room)


@functools.partial(compilation.jit, static_argnames='settings')
def _iterated(target, drafter, request, seed, ids, standardizer, lenience, settings: Settings) -> State:
  state = _begun(target, drafter, request, seed, ids, settings)
  return iterate(target, drafter, standardizer, lenience, settings, state)


@functools.partial(compilation.jit, static_argnames='settings')
def _encode(target, drafter, request, seed, ids, settings: Settings) -> State:
  return rows_of.start(target, drafter, request, seed, ids, settings, 0)


@functools.partial(jax.jit, static_argnames=('structure', 'leaves', 'shardings'))
def _idle(structure, leaves, shardings) -> State:
  return _laid(rows_of.idle(jax.tree.unflatten(structure, leaves)), shardings)


@functools.partial(jax.jit, static_argnames='shardings', donate_argnames='state')
def _put(state: State, new: State, chosen, samples, rows, shardings) -> State:
  return _laid(rows_of.put(state, new, chosen, samples, rows), shardings)


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
