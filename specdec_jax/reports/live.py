"""A text as it is accepted, in a terminal or a notebook, in the colours of figure 1."""

import html
import sys
from collections.abc import Iterable
from typing import Protocol

from specdec_jax.reports import trace
from specdec_jax.results import Stats

_WAITING = 'waiting for the first tokens; the first text of each kind waits for its program to be compiled'


class Shown(Protocol):
  """What is shown of an iteration: see `streaming.Event`."""

  @property
  def text(self) -> str: ...

  @property
  def stats(self) -> Stats: ...

  def parts(self) -> Iterable[tuple[str, str]]: ...


class Terminal:
  """Writes to stdout: in colours, or the text alone where stdout is no terminal.

  Args:
    given: the text before, such as a prompt.
    colour: see `trace.in_colour`.
  """

  def __init__(self, given: str, colour: bool | None = None):
    self._colour = trace.in_colour(colour)
    self._write(given)

  def add(self, event: Shown) -> None:
    self._write(''.join(trace.spaced(event.parts(), trace.in_ansi)) if self._colour else event.text)

  def close(self) -> None:
    self._write('\n')

  def _write(self, text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


class Notebook:
  """One output of a cell, written anew with every iteration; what is saved is the last."""

  def __init__(self, given: str, colour: bool | None = None):
    from IPython.display import HTML, display
    self._html, self._pieces, self._counts = HTML, [html.escape(given)], _WAITING
    self._handle = display(HTML(self.html()), display_id=True)

  def add(self, event: Shown) -> None:
    self._pieces += trace.spaced(event.parts(), trace.in_html)
    self._counts = counts(event.stats)
    self._handle.update(self._html(self.html()))

  def close(self) -> None:
    pass

  def html(self) -> str:
    """A fragment, colours inline."""
    legend = ', '.join(trace.in_html(words, kind) for kind, words in trace.LEGEND)
    return (f'<div class="specdec-stream"><p style="white-space:pre-wrap">{"".join(self._pieces)}</p>'
            f'<p><small>{legend}; {html.escape(self._counts)}</small></p></div>')


def display() -> type[Terminal] | type[Notebook]:
  """What shows a text where Python runs now."""
  ipython = sys.modules.get('IPython')
  shell = ipython and ipython.get_ipython()
  return Notebook if hasattr(shell, 'kernel') else Terminal


def counts(stats: Stats) -> str:
  """Of one row: '12 target calls, 2.50 tokens a call, 18 of 41 draft tokens accepted'."""
  calls, drafted = int(stats.target_calls[0]), int(stats.drafted[0])
  accepted = f', {stats.accepted[0]} of {drafted} draft tokens accepted' if drafted else ''
  return f'{calls} target call{"s" if calls > 1 else ""}, {stats.tokens_per_call:.2f} tokens a call{accepted}'
