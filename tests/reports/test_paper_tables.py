from paper_reports import EXPERIMENT

from specdec_jax.reports import paper, paper_tables
from specdec_jax.reports.measured import Measured

ROW = paper.TABLE_2[0]


def cells(table):
  """[{title: cell}], a row each."""
  header, rows = table
  assert all(len(row) == len(header) for row in rows)
  return [dict(zip(header, row)) for row in rows]


def test_table_2_and_4_have_the_papers_figures_beside_ours():
  over = {**EXPERIMENT, 'speed_up_over_t5x': 3.104}
  measured = [Measured.of(over, 'T5-small', 'EnDe', ROW), Measured.of(EXPERIMENT, 'draft', 'embedded EnDe')]
  ours, bare = cells(paper_tables.table_2(measured))
  assert (ours['alpha, paper'], ours['alpha']) == ('0.75', '0.75')
  assert (ours['speed-up, paper'], ours['over T5X']) == ('3.4X', '3.10X')
  assert ours['over our one-token decoder'] == '2.99X' and ours['outputs'] == 'identical'
  assert bare['alpha, paper'] is bare['speed-up, paper'] is bare['over T5X'] is None
  ours, bare = cells(paper_tables.table_4(measured))
  assert (ours['thm 3.8'], ours['thm 3.8, paper']) == ('3.14X', '3.2X')
  assert (ours['measured'], ours['measured, paper']) == ('2.99X', '3.4X')
  assert (ours['c'], ours['verify cost'], ours['with the verify cost']) == ('0.021', '1.12', '2.84X')


def test_nothing_is_concluded_from_unreliable_timings():
  wrong = {**EXPERIMENT, 'timings': {'reliable': False}}
  older = {key: value for key, value in EXPERIMENT.items() if key != 'timings'}
  measured = [Measured.of(e, 'draft') for e in (EXPERIMENT, wrong, older)]
  good, bad, unknown = cells(paper_tables.table_4(measured))
  assert (good['timings'], bad['timings'], unknown['timings']) == ('reliable', 'unreliable', None)
  assert good['thm 3.8'] == unknown['thm 3.8'] == '3.14X'
  assert bad['thm 3.8'] is bad['with the verify cost'] is None and bad['measured'] == '2.99X'
  assert [row['timings'] for row in cells(paper_tables.table_2(measured))] == ['reliable', 'unreliable', None]


def alpha(drafter, temperature, lenience, value):
  return {'drafter': drafter, 'sampling': {'temperature': temperature, 'top_k': 0, 'top_p': 1.0},
          'lenience': lenience, 'alpha': value, 'standard_error': 0.012, 'tokens': 100}


def test_table_3_has_the_papers_alphas_where_a_drafter_has_its_name():
  report = {'alphas': [alpha(d, t, 1.0, 0.2) for t in (0.0, 1.0) for d in ('bigram', 'mine')]}
  rows = cells(paper_tables.alphas(report, 'T5-XXL (11B)', 'EnDe'))
  assert [(r['drafter'], r['sampling'], r['paper']) for r in rows] == [
      ('bigram', 'greedy', '0.20'), ('mine', 'greedy', None),
      ('bigram', 'temperature 1', '0.19'), ('mine', 'temperature 1', None)]
  assert rows[0]['alpha'] == '0.20 ± 0.01'
  assert cells(paper_tables.alphas(report, digits=3))[0]['alpha'] == '0.200 ± 0.012'


def test_table_5_has_a_column_a_lenience():
  report = {'alphas': [alpha('draft', 1.0, lenience, a) for lenience, a in ((1.0, 0.5), (0.3, 0.8))]}
  row, = cells(paper_tables.alphas(report))
  assert row['l = 1'] == '0.50 ± 0.01' and row['l = 0.3'] == '0.80 ± 0.01'
  assert 'paper' not in row


def test_speed_ups_over_lenience_tell_what_the_texts_score():
  lenient = {**EXPERIMENT, 'lenience': 0.3, 'outputs': {'relation': 'inexact (lenience 0.3)'},
             'quality': {'bleu': {'target_alone': 30.04, 'speculative': 27.96}}}
  exact, inexact = cells(paper_tables.lenient_speed_ups({'experiments': [EXPERIMENT, lenient]}))
  assert exact['lenience'] == '1' and exact['bleu'] == '30.0'
  assert inexact['outputs'] == 'inexact (lenience 0.3)' and inexact['bleu'] == '28.0'


def test_columns_without_a_figure_can_be_left_out():
  bare = paper_tables.table_2([Measured.of(EXPERIMENT, 'draft')])
  row, = cells(paper_tables.filled(*bare))
  assert row['over our one-token decoder'] == '2.99X'
  assert not {'task', 'over T5X', 'alpha, paper', 'speed-up, paper'} & set(row)
