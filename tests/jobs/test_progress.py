"""The progress line: what it shows, and that compiling counts in no speed."""

import time

import pytest

from specdec_jax.jobs.progress import Progress


@pytest.fixture
def clock(monkeypatch):
  """Seconds that `time.perf_counter` gives; add to them."""
  now = [100.0]
  monkeypatch.setattr(time, 'perf_counter', lambda: now[0])
  return now


def test_compiling_is_said_and_counts_in_no_speed(clock, capsys):
  with Progress(4, 'name') as progress:
    with progress.compiling('for inputs of 16 tokens'):
      clock[0] += 74
    progress.add(1)
    clock[0] += 2
    progress.add(1, tokens=20)
    assert progress._bar.postfix == '10.0 tokens/s'
    with progress.compiling():
      clock[0] += 50
    clock[0] += 2
    progress.add(2, tokens=20)
    assert progress._bar.postfix == '10.0 tokens/s'
  shown = capsys.readouterr().err
  assert 'compiling for inputs of 16 tokens' in shown and 'name: 100%' in shown


def test_a_line_ends_whole_where_there_was_no_more_to_do(capsys):
  with Progress(10_000, 'alpha', 'token') as progress:
    progress.add(100)
  assert '100/100' in capsys.readouterr().err


def test_a_line_that_an_error_ends_stays_as_it_was(capsys):
  with pytest.raises(KeyError), Progress(10, 'name') as progress:
    progress.add(3)
    raise KeyError
  assert '3/10' in capsys.readouterr().err.replace('| ', '|')


def test_without_a_total_the_words_are_shown(capsys):
  with Progress(None, 'costs', 'part') as progress:
    progress.say('verify pass')
    progress.add(1)
  assert 'verify pass' in capsys.readouterr().err
