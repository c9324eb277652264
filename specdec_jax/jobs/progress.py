"""A progress line on stderr: what is done of how much, tokens/s, the time that is left, and when it compiles."""

import contextlib
import sys
import time
from collections.abc import Iterator

import tqdm


class Progress:
  """Used as a context.

  Time in which a program is compiled counts in no speed. On a terminal the line is renewed twice a second, in a log
  every 30 seconds and where it says something new.
  """

  def __init__(self, total: int | None, name: str, unit: str = 'ex', shown: bool = True):
    """A line `NAME: 12/100 UNIT`; total is None where nobody knows how much it will be. Not `shown`, it only counts."""
    interval = 0.5 if sys.stderr.isatty() else 30.0  # a log file is not a terminal
    self._bar = tqdm.tqdm(total=total, desc=name, unit=unit, mininterval=interval, file=sys.stderr, dynamic_ncols=True,
                          disable=not shown)
    self._tokens, self._seconds, self._since = 0, 0.0, time.perf_counter()

  def add(self, done: int, tokens: int = 0, words: str = '') -> None:
    """Counts what is done, and tokens of the time that was not spent compiling; words are shown behind the speed."""
    self._tokens += tokens
    seconds = self._seconds + time.perf_counter() - self._since
    speed = f'{self._tokens / seconds:.1f} tokens/s' if self._tokens and seconds else ''
    self._bar.set_postfix_str(', '.join(filter(None, [speed, words])), refresh=False)
    self._bar.update(done)

  def say(self, words: str) -> None:
    """Shows, at once, what is being done."""
    self._bar.set_postfix_str(words)

  def next(self, words: str) -> None:
    """Counts one, and shows what is done next."""
    self._bar.update(1)
    self.say(words)

  @contextlib.contextmanager
  def compiling(self, what: str = '') -> Iterator[None]:
    """Says that a program is compiled, as the first call of each shape does."""
    self._seconds += time.perf_counter() - self._since
    self.say(f'compiling {what}'.rstrip())
    try:
      yield
    finally:
      self._since = time.perf_counter()
      self._bar.unpause()  # its own speed and the time that is left
      self.say('')

  def __enter__(self) -> 'Progress':
    return self

  def __exit__(self, kind, *unused) -> None:
    if kind is None and self._bar.total is not None and self._bar.n < self._bar.total:
      self._bar.total = self._bar.n  # there was no more to do
    self._bar.close()
