"""Rendering of a trace made by hand; traces of real decodes are in tests/test_decoding_trace.py."""

import types

import numpy as np
import pytest

import specdec_jax as sd
from specdec_jax.reports import trace as trace_lib
from specdec_jax.results import Result, Stats, Status, Trace

PIECES = ['<pad>', '</s>', '\u2581Das', '\u2581Haus', 'boot', '\u2581<b>', '\u2581']
MODEL = types.SimpleNamespace(vocabulary=types.SimpleNamespace(piece=PIECES.__getitem__))


def by_hand():
  """gamma 2: [Das Haus | boot], [~Haus~ | <b>], and Haus with EOS where the block is cut."""
  one = np.array([0])
  return Result(
      tokens=np.array([[2, 3, 4, 5, 3, 1, 0, 0]]), lengths=np.array([6]), scores=one,
      status=np.array([Status.EOS]),
      stats=Stats.zeros(1, sd.Tree.chain(2)).replace(target_calls=np.array([3])),
      trace=Trace(drafts=np.array([[[2, 3], [3, 6], [3, 1]]]), num_accepted=np.array([[2, 0, 2]]),
                  path=np.array([[[0, 1], [-1, -1], [0, 1]]]),
                  next_token=np.array([[4, 5, 6]]), emitted=np.array([[3, 1, 2]])))


def test_iterations():
  first, second, last = trace_lib.iterations(by_hand())
  assert first == trace_lib.Iteration(accepted=(2, 3), rejected=(), next_token=4)
  assert second == trace_lib.Iteration(accepted=(), rejected=(3,), next_token=5)
  assert last == trace_lib.Iteration(accepted=(3, 1), rejected=(), next_token=None)
  assert sum((i.emitted for i in (first, second, last)), ()) == (2, 3, 4, 5, 3, 1)


def test_a_block_cut_before_its_rejection_shows_none():
  result = by_hand()
  cut = result.replace(trace=result.trace.replace(
      num_accepted=np.array([[1, 0, 1]]), emitted=np.array([[2, 1, 1]])))
  assert trace_lib.iterations(cut)[2] == trace_lib.Iteration((3,), (), None)


def test_of_a_tree_all_refused_candidates_are_told():
  """[Das, </s> | Haus, boot, nothing | <b>]: Das is accepted, both its children refused; then all three at the root."""
  tree, result = sd.Tree((-1, -1, -1, 0, 0)), by_hand()
  two = result.replace(stats=result.stats.replace(target_calls=np.array([2])), trace=Trace(
      drafts=np.array([[[2, 1, 6, 3, 4], [2, 4, -1, 3, 3]]]), path=np.array([[[0, -1], [-1, -1]]]),
      num_accepted=np.array([[1, 0]]), next_token=np.array([[5, 3]]), emitted=np.array([[2, 1]])))
  assert trace_lib.iterations(two, tree=tree) == [
      trace_lib.Iteration(accepted=(2,), rejected=(3, 4), next_token=5),
      trace_lib.Iteration(accepted=(), rejected=(2, 4), next_token=3)]
  assert trace_lib.picture(MODEL, two, tree=tree).text(colour=False).splitlines()[1:] == [
      '1   Das ~Haus~~boot~ [<b>]', '2   ~Das~~boot~ [Haus]']
  with pytest.raises(ValueError, match='a tree of 5 nodes; name it'):
    trace_lib.iterations(two)
  with pytest.raises(ValueError, match='tree has 3 nodes, and this result was decoded with 5'):
    trace_lib.iterations(two, tree=sd.Tree.chain(3))


def test_text_without_colours():
  text = trace_lib.picture(MODEL, by_hand(), title='the house').text(colour=False)
  assert text.splitlines() == [
      'the house',
      "accepted draft token, ~rejected draft token~, [the target's own token]",
      '1   Das Haus[boot]',
      '2   ~Haus~ [<b>]',
      '3   Haus</s>']


def test_text_in_colours():
  picture = trace_lib.picture(MODEL, by_hand())
  line = picture.text(colour=True).splitlines()[2]
  assert line == '2   \x1b[31;9mHaus\x1b[0m \x1b[94m<b>\x1b[0m'
  assert '\x1b[32mboot' not in picture.text(colour=True)


@pytest.mark.parametrize('terminal, no_colour, coloured', [
    (True, '', True), (True, '1', False), (False, '', False)])
def test_colours_only_in_a_terminal(terminal, no_colour, coloured, monkeypatch):
  monkeypatch.setattr('sys.stdout', types.SimpleNamespace(isatty=lambda: terminal))
  monkeypatch.setenv('NO_COLOR', no_colour)
  assert ('\x1b' in trace_lib.picture(MODEL, by_hand()).text()) == coloured


def test_html():
  html = trace_lib.picture(MODEL, by_hand(), title='a < b')._repr_html_()
  assert html.count('<li>') == 3 and '<b>a &lt; b</b>' in html
  assert f'<span class="accepted" style="color:{trace_lib.COLOURS["accepted"]}">Haus</span>' in html
  assert 'line-through">Haus</span>' in html and '>&lt;b&gt;</span>' in html


def test_a_piece_that_is_a_space_and_a_model_without_a_vocabulary():
  result = by_hand()
  result = result.replace(trace=result.trace.replace(next_token=np.array([[6, 5, 6]])))
  assert '[\u2581]' in trace_lib.picture(MODEL, result).text(colour=False)
  bare = types.SimpleNamespace(vocabulary=None)
  assert '1   <2> <3> [<4>]' in str(trace_lib.picture(bare, by_hand()))


def test_picture_puts_every_letter_into_its_cell():
  fig = trace_lib.picture(MODEL, by_hand(), title='$x$').figure()
  lines = {}
  for t in fig.axes[0].texts:
    x, y = t.get_position()
    assert x == int(x) and len(t.get_text()) == 1
    line = lines.setdefault(round(y), {})
    assert line.setdefault(int(x), t.get_text()) == t.get_text()  # nothing lies on anything else
  written = [''.join(line.get(x, ' ') for x in range(max(line) + 1)) for line in lines.values()]
  assert written == ['$x$', ' 1   Das Hausboot', ' 2   Haus <b>', ' 3   Haus</s>',
                     "accepted draft token   rejected draft token   the target's own token"]
  assert [list(line.get_ydata()) for line in fig.axes[0].lines] == [[2, 2], [4, 4]]  # struck, legend


def test_a_result_without_a_trace_is_refused():
  with pytest.raises(ValueError, match='trace=True'):
    trace_lib.iterations(by_hand().replace(trace=None))
