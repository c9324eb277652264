"""A decode iteration by iteration, read off `Result.trace`, and its picture [fig. 1]."""

import dataclasses
import html
import os
import sys
from collections.abc import Callable, Iterable, Iterator

from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.results import Result, Trace
from specdec_jax.tree import ROOT, Tree

ACCEPTED, REJECTED, CORRECTION, BONUS = 'accepted', 'rejected', 'correction', 'bonus'
COLOURS = {ACCEPTED: '#2e7d32', REJECTED: '#c62828', CORRECTION: '#1565c0', BONUS: '#1565c0'}
_ANSI = {ACCEPTED: '32', REJECTED: '31;9', CORRECTION: '94', BONUS: '94'}  # 9: struck through
_MARKS = {ACCEPTED: ('', ''), REJECTED: ('~', '~'), CORRECTION: ('[', ']'), BONUS: ('[', ']')}
_SPACE = '\u2581'  # how SentencePiece writes a space
LEGEND = ((ACCEPTED, 'accepted draft token'), (REJECTED, 'rejected draft token'),
           (CORRECTION, "the target's own token"))


@dataclasses.dataclass(frozen=True)
class Iteration:
  """One run of algorithm 1 on a row, without what was cut off after EOS or by the budget.

  Attributes:
    accepted: draft tokens that were emitted.
    rejected: the candidates for the next place that the target refused, one of a chain; empty where it refused
      none.
    next_token: the target's correction of them, or the bonus token where there was nothing to refuse; None where
      the text had ended before.
  """

  accepted: tuple[int, ...]
  rejected: tuple[int, ...]
  next_token: int | None

  @property
  def emitted(self) -> tuple[int, ...]:
    return self.accepted + (() if self.next_token is None else (self.next_token,))

  def tokens(self):
    """(token, kind) in the order of figure 1."""
    yield from ((t, ACCEPTED) for t in self.accepted)
    yield from ((t, REJECTED) for t in self.rejected)
    if self.next_token is not None:
      yield self.next_token, CORRECTION if self.rejected else BONUS


def iterations(result: Result, row: int = 0, tree: Tree | None = None) -> list[Iteration]:
  """The iterations of one row of a `Result` that was decoded with trace=True.

  Args:
    tree: that was drafted; a chain is known without.
  """
  trace = _trace(result)
  nodes, depth = trace.drafts.shape[-1], trace.path.shape[-1]
  if tree is None and nodes != depth:
    raise SettingError(f'This result was decoded with a tree of {nodes} nodes; name it: tree=...')
  tree = tree or Tree.chain(nodes)
  if tree.num_nodes != nodes:
    raise SettingError(f'tree has {tree.num_nodes} nodes, and this result was decoded with {nodes}.')
  return [iteration(trace, row, i, tree) for i in range(int(result.stats.target_calls[row]))]


def iteration(trace: Trace, row: int, i: int, tree: Tree | None) -> Iteration:
  """One of them, counted from 0; without a tree one of plain decoding."""
  draft, num_accepted = trace.drafts[row, i].tolist(), int(trace.num_accepted[row, i])
  path, emitted = trace.path[row, i].tolist()[:num_accepted], int(trace.emitted[row, i])
  whole = emitted == num_accepted + 1  # the block was not cut short
  after = path[-1] if path else ROOT
  candidates = [draft[node] for node in tree.children[after + 1] if node >= 0] if whole and tree else []
  return Iteration(accepted=tuple(draft[node] for node in path[:emitted]),
                   rejected=tuple(t for t in candidates if t >= 0),  # a void node has no token
                   next_token=int(trace.next_token[row, i]) if whole else None)


@dataclasses.dataclass(frozen=True)
class Picture:
  """Figure 1 of one text: a line an iteration; shows itself in notebooks.

  Attributes:
    lines: (piece, kind) of each iteration's tokens.
    title: stands above, such as the source text.
  """

  lines: tuple[tuple[tuple[str, str], ...], ...]
  title: str = ''

  def text(self, colour: bool | None = None) -> str:
    """Lines for a terminal, in colours (ANSI) or with ~rejected~ and [the target's].

    Args:
      colour: by default where stdout is a terminal and NO_COLOR is not set.
    """
    show = in_ansi if in_colour(colour) else lambda text, kind: text.join(_MARKS[kind])
    width = len(str(len(self.lines)))
    legend = ', '.join(show(words, kind) for kind, words in LEGEND)
    rows = [f'{i:>{width}}  ' + ''.join(spaced(line, show))
            for i, line in enumerate(self.lines, 1)]
    return '\n'.join([*([self.title] if self.title else []), legend, *rows]) + '\n'

  def html(self) -> str:
    """A fragment, colours inline, that depends on no style sheet."""
    rows = [f'<li>{"".join(spaced(line, in_html))}</li>' for line in self.lines]
    legend = ', '.join(in_html(words, kind) for kind, words in LEGEND)
    title = f'<p><b>{html.escape(self.title)}</b></p>' if self.title else ''
    return (f'<div class="specdec-trace">{title}<p>{legend}</p>'
            f'<ol style="font-family:monospace">{"".join(rows)}</ol></div>')

  def _repr_html_(self) -> str:
    return self.html()

  def __str__(self) -> str:
    return self.text(colour=False)

  def figure(self):
    """A matplotlib `Figure`, one line of monospaced text an iteration.

    Each letter is put into its own cell: at some resolutions the font's letters are wider than its cells.
    """
    from matplotlib.figure import Figure
    rows: list[list[tuple[str, str | None]]] = [
        [(self.title, None)], *([(f'{i:>2}  ', None), *line] for i, line in enumerate(self.lines, 1)),
        [part for kind, words in LEGEND for part in ((words, kind), ('   ', None))]]
    columns = max(sum(len(text) for text, _ in row) for row in rows)
    size = 9  # points
    advance = 0.602 * size / 72  # inches a character of this font
    width, height = columns + 2, len(rows) + 1
    fig = Figure(figsize=(advance * width, 1.8 * size / 72 * height))
    axes = fig.add_axes((0, 0, 1, 1), xlim=(-1, width - 1), ylim=(height - 1, -1))
    axes.set_axis_off()
    for y, row in enumerate(rows):
      x = 0
      for text, kind in row:
        colour = '#444444' if kind is None else COLOURS[kind]
        for place, letter in enumerate(text):
          if letter != ' ':
            axes.text(x + place, y + 0.16, letter, family='DejaVu Sans Mono', fontsize=size, color=colour,
                      va='baseline', parse_math=False)
        if kind == REJECTED:
          axes.plot([x + len(text) - len(text.lstrip()), x + len(text)], [y, y], color=colour,
                    linewidth=1)
        x += len(text)
    return fig


def picture(model: Model, result: Result, row: int = 0, title: str = '', tree: Tree | None = None) -> Picture:
  """Figure 1 of one row of a `Result` decoded with trace=True, in the model's own pieces; `tree` as in `iterations`."""
  vocabulary = model.vocabulary
  piece = vocabulary.piece if vocabulary is not None else lambda token: f' <{token}>'
  show = lambda token: piece(token).replace(_SPACE, ' ') if piece(token) != _SPACE else _SPACE
  return Picture(lines=tuple(tuple((show(token), kind) for token, kind in iteration.tokens())
                             for iteration in iterations(result, row, tree)), title=title)


def in_colour(colour: bool | None = None) -> bool:
  """What was asked for; by default whether stdout is a terminal and NO_COLOR is not set."""
  return sys.stdout.isatty() and not os.environ.get('NO_COLOR') if colour is None else colour


def in_ansi(text: str, kind: str) -> str:
  """In the colour of its kind, for a terminal."""
  return f'\x1b[{_ANSI[kind]}m{text}\x1b[0m'


def in_html(text: str, kind: str) -> str:
  """A span in the colour of its kind."""
  struck = ';text-decoration:line-through' if kind == REJECTED else ''
  return f'<span class="{kind}" style="color:{COLOURS[kind]}{struck}">{html.escape(text)}</span>'


def spaced(line: Iterable[tuple[str, str]], show: Callable[[str, str], str]) -> Iterator[str]:
  """Shows each (text, kind); the space in front of a word stays outside of its colour."""
  for text, kind in line:
    word = text.lstrip(' ')
    yield text[:len(text) - len(word)] + (show(word, kind) if word else '')


def _trace(result):
  if result.trace is None:
    raise SettingError('This result has no trace; decode with speculative_decode(..., trace=True).')
  return result.trace
