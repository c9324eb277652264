"""A progress line on stderr: examples, tokens/s and the time that is left."""

import sys
import time

import tqdm


class Progress:
  """Used as a context; tokens/s counts from the second call, behind the first compilation."""

  def __init__(self, total: int, name: str, unit: str = 'ex'):
    interval = 0.5 if sys.stderr.isatty() else 30.0  # a log file is not a terminal
    self._bar = tqdm.tqdm(total=total, desc=name, unit=unit, mininterval=interval,
                          file=sys.stderr, dynamic_ncols=True)
    self._tokens, self._start = 0, None

  def add(self, done: int, tokens: int = 0) -> None:
    if self._start is None:
      self._start = time.perf_counter()
    else:
      self._tokens += tokens
    if self._tokens:
      speed = self._tokens / (time.perf_counter() - self._start)
      self._bar.set_postfix_str(f'{speed:.1f} tokens/s', refresh=False)
    self._bar.update(done)

  def __enter__(self):
    return self

  def __exit__(self, *unused):
    self._bar.close()
