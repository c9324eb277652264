from specdec_jax.reports import paper


def test_every_row_is_there():
  assert len(paper.TABLE_2) == 2 * 3 * 2 and len(paper.TABLE_3) == 16 * 2
  assert len(paper.TABLE_5) == 5 * 4


def test_the_tables_agree_with_each_other():
  """Table 3 repeats Table 2's alphas, and Table 5 begins with them."""
  alphas = {(r.task, r.draft, r.temperature): r.alpha for r in paper.TABLE_3}
  assert len(alphas) == len(paper.TABLE_3)
  for row in paper.TABLE_2:
    assert alphas[row.task, row.draft, row.temperature] == row.alpha
  for row in paper.TABLE_5:
    if row.lenience == 1:
      assert alphas['EnDe', row.draft, row.temperature] == row.alpha
  assert all(0 < r.alpha < 1 for r in paper.TABLE_3 + paper.TABLE_5)
