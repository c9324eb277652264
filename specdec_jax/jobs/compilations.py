"""What jax compiled and what it found in its persistent cache."""

import collections
import contextlib
from collections.abc import Iterator

import jax

_EVENTS = '/jax/compilation_cache/'


@contextlib.contextmanager
def counted() -> Iterator[collections.Counter]:
  """Counts 'cache_hits' and 'cache_misses' of programs while the context is open."""
  counts = collections.Counter()

  def listener(event, **unused):
    if event.startswith(_EVENTS):
      counts[event.removeprefix(_EVENTS)] += 1

  jax.monitoring.register_event_listener(listener)
  try:
    yield counts
  finally:
    jax.monitoring.unregister_event_listener(listener)
