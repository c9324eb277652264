import dataclasses
import itertools

import numpy as np
import pytest

from specdec_jax.analysis.cost import Cost
from specdec_jax.reports import figures, paper
from specdec_jax.reports.measured import Measured

COST = Cost(gamma=2, draft_step=0.1, target_step=1.0, verify_pass=1.5, target_encoder=4.0,
            draft_encoder=0.5)
MEASURED = [
    Measured(drafter='d', temperature=0.0, gamma=g, alpha=0.7, c=0.05, c_hat=0.1, verify_cost=1.2,
             tokens_per_call=t, speed_up=s, acceptance=(0.7, 0.6))
    for g, t, s in ((3, 2.4, 1.6), (6, 3.0, 1.4))]


def points(axes):
  """(x, y) of the filled markers."""
  return [tuple(map(float, line.get_xydata()[i])) for line in axes.lines
          if line.get_marker() == 'o' and line.get_markeredgecolor() == 'black'
          for i in range(len(line.get_xdata()))]


def marked(axes):
  """(x, y) of lone points, by marker."""
  found = {}
  for line in axes.lines:
    if line.get_marker() not in ('None', None, '') and len(line.get_xdata()) == 1:
      found.setdefault(line.get_marker(), []).append(tuple(map(float, line.get_xydata()[0])))
  return found


def labels(axes):
  return [text.get_text() for text in axes.get_legend().get_texts()]


def test_calls_of_a_decode_follow_one_another():
  spans = figures.calls(COST, 3)
  assert [kind for kind, _, _ in spans] == ['encoder'] * 2 + ['draft', 'draft', 'target'] * 3
  for (_, start, length), (_, following, _) in itertools.pairwise(spans):
    assert following == pytest.approx(start + length)
  assert sum(spans[-1][1:]) == pytest.approx(COST.decode_seconds(3))
  assert sum(figures.plain_calls(COST, 5)[-1][1:]) == pytest.approx(4 + 5)


def test_timeline_has_a_row_a_decode():
  axes, = figures.timeline([(COST, 3)], tokens=5).axes
  assert [t.get_text() for t in axes.get_yticklabels()] == ['$\\gamma$ = 2', 'plain']
  bars = [len(collection.get_paths()) for collection in axes.collections]
  assert bars == [2, 6, 3, 1, 0, 5]  # encoder, draft and target calls of each row
  assert labels(axes) == ['encoder call', 'draft call', 'target call']


def test_points_lie_where_they_were_measured():
  axes, = figures.expected_tokens((3, 5), MEASURED).axes
  assert points(axes) == [(0.7, 2.4), (0.7, 3.0)]
  assert labels(axes)[:3] == ['$\\gamma$ = 3', '$\\gamma$ = 5', '$\\gamma$ = 6']
  left, right, third = figures.speed_up_and_operations((3,), MEASURED).axes
  assert points(left) == [] and points(right) == [(0.7, m.operations) for m in MEASURED]
  assert marked(third) == {'o': [(m.predicted_with_verify_cost, m.speed_up) for m in MEASURED]}
  assert labels(third) == ['temperature 0', '$\\gamma$ = 3', '$\\gamma$ = 6']


def test_the_fastest_is_told_in_the_legend_where_nothing_can_lie_on_it():
  warm = [dataclasses.replace(m, temperature=1.0, alpha=0.71, c=0.06) for m in MEASURED]
  axes, = figures.optimal_gamma((0.1,), [*MEASURED, *warm]).axes
  assert marked(axes) == {'o': [(0.7, 3)], 's': [(0.71, 3)]} and not axes.texts
  assert labels(axes)[1:] == [f'fastest measured, temperature {t}, $c$ = {c}' for t, c in ((0, 0.05), (1, 0.06))]
  other = [dataclasses.replace(m, drafter='e') for m in MEASURED]
  assert labels(figures.optimal_gamma((0.1,), [*MEASURED, *other]).axes[0])[2] == (
      'fastest measured, temperature 0, e, $c$ = 0.05')
  assert marked(figures.optimal_gamma((0.1,), MEASURED[:1]).axes[0]) == {}


def test_the_expected_speed_up_goes_through_what_was_measured():
  one = MEASURED[0]
  gammas, expected = figures.expected_speed_ups([one])
  assert gammas.tolist() == [1, 2, 3] and expected[2] == pytest.approx(one.predicted_with_verify_cost)
  other = dataclasses.replace(one, gamma=1, verify_cost=1.15)  # most of the cost comes with the second token
  both = figures.expected_speed_ups([one, other])[1]
  assert both[0] == pytest.approx(other.predicted_with_verify_cost) and both[2] == expected[2]


def test_speed_ups_over_gamma_have_the_papers_beside_them():
  row = paper.TABLE_2[0]  # temperature 0
  own = [dataclasses.replace(m, task='EnDe', speed_up_over_t5x=m.speed_up + 1) for m in MEASURED]
  warm = dataclasses.replace(own[0], temperature=1.0, printed=row)
  left, right = figures.speed_up_over_gamma([*own, warm], [row]).axes
  assert left.get_title() == 'EnDe, temperature 0'
  assert labels(left) == ['d, thm 3.8 with the verify cost', 'd, measured', 'd, over T5X', 'paper: EnDe, T5-small']
  assert labels(right) == ['d, thm 3.8 with the verify cost', 'd, measured', 'd, over T5X', 'd, paper']
  marked = {line.get_label(): line.get_xydata().tolist() for line in left.lines}
  assert marked['d, measured'] == [[3, 1.6], [6, 1.4]] and marked['d, over T5X'] == [[3, 2.6], [6, 2.4]]
  assert marked['paper: EnDe, T5-small'] == [[row.gamma, row.speed_up]]


def test_without_measurements_only_curves():
  for draw in (figures.expected_tokens, figures.optimal_gamma, figures.speed_up_and_operations):
    for axes in draw().axes:
      assert not points(axes) and 'measured' not in ' '.join(labels(axes))


def test_acceptance_falls_with_the_powers_of_alpha_beside_it():
  axes, = figures.acceptance_by_position([('x', (0.8, 0.6), 0.8), ('y', (0.5,), None)]).axes
  assert [np.round(line.get_ydata(), 2).tolist() for line in axes.lines] == [
      [0.8, 0.6], [0.8, 0.64], [0.5]]


def test_files_are_written_and_repeat(tmp_path):
  for name in ('a.png', 'b.png', 'a.svg', 'b.svg'):
    fig = figures.acceptance_by_position([('x', (0.8, 0.7), 0.75), ('y', (0.5,), None)])
    figures.save(fig, str(tmp_path / name))
  for kind, start in (('png', b'\x89PNG'), ('svg', b'<?xml')):
    first, second = ((tmp_path / f'{name}.{kind}').read_bytes() for name in 'ab')
    assert first == second and first.startswith(start) and len(first) > 1000
