import pytest

from specdec_jax.reports import tables


def test_markdown_lines_up():
  table = tables.markdown(['task', 'x'], [['EnDe', 1.5], ['a|b', None]])
  assert table == ('| task |   x |\n'
                   '| ---- | --: |\n'
                   '| EnDe | 1.5 |\n'
                   '| a\\|b |   - |\n')


def test_a_row_of_another_width_is_refused():
  with pytest.raises(ValueError, match='1 cells, the table 2'):
    tables.markdown(['a', 'b'], [['x']])


def test_number():
  assert tables.number(1.234, 1, 'X') == '1.2X'
  assert tables.number(None) is None
