import dataclasses
import json

import pytest

from specdec_jax.data.examples import read_examples
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import RunFailed
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.measure.beams import BeamMethod
from specdec_jax.reports import beam_search as beam_report
from specdec_jax.runs import beam as beam_lib

SETTINGS = dict(num_beams=2, draft_beams=(3,), gammas=(2,), max_decode_len=12, max_input_len=32,
                buckets=(32,), batch_size=5)


@pytest.fixture(scope='module')
def examples(files):
  return read_examples(files / 'inputs.jsonl', limit=9)


@pytest.fixture(scope='module')
def searched(target, draft, examples, tmp_path_factory):
  """The report of a run, and its directory."""
  directory = tmp_path_factory.mktemp('beam')
  return beam_lib.beam(str(directory), target, examples, ModelDrafter(draft), **SETTINGS), directory


def test_figures_are_those_of_the_searches(searched, target, draft, examples):
  result = searched[0]
  plain, (drafted,) = result['plain'], result['speculative']
  assert drafted['identical'] == drafted['best_identical'] == 9 and drafted['different'] == 0
  assert plain['target_calls'] == plain['steps'] == drafted['steps']
  assert drafted['target_calls'] + drafted['accepted'] == plain['target_calls']
  assert drafted['acceptance_rate'] == drafted['accepted'] / drafted['drafted']
  assert drafted['calls_per_text'] == drafted['target_calls'] / 9
  assert drafted['speed_up'] == pytest.approx(plain['seconds'] / drafted['seconds'])
  method = BeamMethod(num_beams=2, alpha=0.6, max_decode_len=12)
  inputs = InputOptions(max_input_len=32).encode(target, examples)
  found = [method(target, b) for b in InputOptions(batch_size=5, max_input_len=32, buckets=(32,)).batches(inputs)]
  assert plain['steps'] == sum(r.stats.steps[:n].sum() for r, n in zip(found, (5, 4)))


def test_report_files(searched):
  result, directory = searched
  assert json.loads((directory / 'report.json').read_text()) == json.loads(json.dumps(result))
  text = (directory / 'report.md').read_text()
  assert 'u 3, gamma 2' in text and 'target calls a text' in text
  assert text.count('- source:') == 3 and text.count('identical') == 2


def test_the_beams_that_are_returned_are_shown(target, draft, examples, tmp_path):
  result = beam_lib.beam(str(tmp_path), target, examples, ModelDrafter(draft), num_return=2, **SETTINGS)
  text, report = result['texts'][0], (tmp_path / 'report.md').read_text()
  scores = [beam['score'] for beam in text['beams']]
  assert scores == sorted(scores, reverse=True) and scores[0] == text['score'] and len(scores) == 2
  assert text['beams'][0]['text'] == text['plain'] and report.count('  - beam 2, ') == 3


def test_unreliable_times_are_called_so(searched):
  text = beam_report.markdown({**searched[0], 'unreliable': ['plain: the median repeat took 40% longer']})
  assert '**Warning:** speed-up: these timings are unreliable' in text and 'beam.repeats of 3 or more' in text


def test_other_beams_fail_after_the_report(target, draft, examples, tmp_path, monkeypatch):
  call = BeamMethod.__call__

  def wrong(self, target, batch):
    r = call(self, target, batch)
    if self.drafter is None:
      return r
    tokens, scores = r.tokens.copy(), r.scores.copy()
    tokens[0, 0, 0] += 1
    scores[1, 1] += 0.5
    return dataclasses.replace(r, tokens=tokens, scores=scores)

  monkeypatch.setattr(BeamMethod, '__call__', wrong)
  run = lambda **more: beam_lib.beam(
      str(tmp_path), target, examples, ModelDrafter(draft), **{**SETTINGS, **more})
  with pytest.raises(RunFailed, match='2 speculative searches .* more than 0.001'):
    run()
  drafted, = json.loads((tmp_path / 'report.json').read_text())['speculative']
  assert drafted['different'] == 2 and drafted['identical'] == 7 and drafted['best_identical'] == 9
  assert '7 of 9 identical' in (tmp_path / 'report.md').read_text()
  assert run(tie_margin=1.0)['speculative'][0]['score_difference'] == pytest.approx(0.5, abs=1e-3)


def test_nothing_to_compare_is_refused(target, draft, examples, tmp_path):
  with pytest.raises(ValueError, match='beam.gammas is empty; it needs at least one value'):
    beam_lib.beam(str(tmp_path), target, examples, ModelDrafter(draft), gammas=())
