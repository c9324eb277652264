"""Markdown tables."""

from collections.abc import Iterable, Sequence

from specdec_jax.errors import SettingError


def markdown(header: Sequence[str], rows: Iterable[Sequence], align: str = '') -> str:
  """A markdown table whose columns line up in a terminal too.

  Args:
    header: titles of the columns.
    rows: cells; None is shown as a dash, everything else by `str`.
    align: a letter a column, 'l' or 'r'; by default the first is left, the others right.
  """
  align = align or 'l' + 'r' * (len(header) - 1)
  cells = [[str(h) for h in header]]
  for row in rows:
    if len(row) != len(header):
      raise SettingError(f'A row has {len(row)} cells, the table {len(header)} columns.')
    cells.append(['-' if c is None else str(c).replace('|', '\\|').replace('\n', ' ') for c in row])
  widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(header))]
  pad = lambda row: [c.ljust(w) if a == 'l' else c.rjust(w) for c, w, a in zip(row, widths, align)]
  rule = ['-' * w if a == 'l' else '-' * (w - 1) + ':' for w, a in zip(widths, align)]
  lines = [pad(cells[0]), rule, *map(pad, cells[1:])]
  return '\n'.join('| ' + ' | '.join(line) + ' |' for line in lines) + '\n'


def number(value, digits: int = 2, suffix: str = '') -> str | None:
  """A number to so many decimals; None stays None."""
  return None if value is None else f'{value:.{digits}f}{suffix}'
