"""Tables of decoders side by side, with stand-ins for the other programs."""

import pytest

from specdec_jax.benchmarks import report, side_by_side
from specdec_jax.benchmarks.counted import as_result
from specdec_jax.data.examples import read_examples
from specdec_jax.decoding import autoregressive_decode
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs import output
from specdec_jax.jobs.inputs import InputOptions
from specdec_jax.jobs.methods import Method
from specdec_jax.sampling import Sampling

LENGTH = 6
GREEDY = Sampling(temperature=0.0)


class StandIn:
  """The target's greedy text; `change` edits its tokens."""

  def __init__(self, name='T5X', change=lambda tokens: tokens, exact=True):
    self.name, self.change, self.exact, self.calls = name, change, exact, 0

  def __call__(self, target, batch):
    self.calls += 1
    result = autoregressive_decode(target, batch.tokens, sampling=GREEDY, max_decode_len=LENGTH)
    return as_result(self.change(result.tokens.copy()), target.eos_ids)


def other_tokens(tokens):
  tokens[:, 1] = tokens[:, 1] % 50 + 2
  return tokens


@pytest.fixture(scope='module')
def ours(draft):
  common = dict(sampling=GREEDY, max_decode_len=LENGTH)
  return [Method(**common), Method(drafter=ModelDrafter(draft), gamma=2, **common)]


def inputs_of(target, files, batch_size, limit):
  options = InputOptions(batch_size=batch_size, max_input_len=16)
  return options.encode(target, read_examples(str(files / 'inputs.jsonl'), limit=limit)), options


def test_batches_are_timed_in_turns_and_counted_alike(target, files, ours):
  inputs, options = inputs_of(target, files, 1, 3)
  theirs = StandIn()
  rows = side_by_side.by_batch(target, inputs, options, [*ours, theirs], repeats=2)
  assert [row['decoder'] for row in rows] == ['specdec_jax, target alone', f'specdec_jax, {ours[1].name}', 'T5X']
  assert len({row['tokens'] for row in rows}) == 1 and {row['equal_texts'] for row in rows} == {3}
  assert all(row['tokens_per_second'] == row['tokens'] / row['seconds'] and not row['not_ties'] for row in rows)
  assert rows[0]['tokens_per_call'] == 1 <= rows[1]['tokens_per_call'] and rows[0]['acceptance_rate'] is None
  assert theirs.calls == 1 + 2 * 3  # a warm-up of the one shape, two timings of each input


def test_other_texts_are_told_but_of_other_weights(target, files, ours):
  inputs, options = inputs_of(target, files, 1, 2)
  rows = side_by_side.by_batch(target, inputs, options, [
      ours[0], StandIn(change=other_tokens), StandIn('int8', other_tokens, exact=False)], repeats=1)
  assert [row['equal_texts'] for row in rows] == [2, 0, 0]
  assert [len(row['not_ties']) for row in rows] == [0, 2, 0] and rows[1]['not_ties'][0]['position'] == 1


@pytest.mark.long
def test_jobs_are_whole(target, files, ours):
  inputs, options = inputs_of(target, files, 2, 5)
  rows = side_by_side.by_job(target, inputs, options, [*ours, StandIn()], repeats=1)
  assert len({row['tokens'] for row in rows}) == 1 and {row['equal_texts'] for row in rows} == {5}


def test_the_report_has_every_decoder_and_the_limit():
  row = lambda name, speed, **more: dict(decoder=name, tokens=10, seconds=10 / speed, tokens_per_second=speed,
                                         spread=0.01, equal_texts=3, texts=3, **more)
  whole = dict(tokens_per_call=1.0, acceptance_rate=None, not_ties=[], warm_up_seconds=1.0)
  names = 'specdec_jax, target alone', 'T5X'
  result = {'target': 'T', 'draft': 'D', 'max_decode_len': 8, 'repeats': 3, 'inputs': 3, 'job_inputs': 3,
            'batch_size': 2, 'best_reason': 'because.', 'environment': output.environment(), 'versions': {'jax': '1'},
            'limit': {'bytes': 2e6, 'speed': 2e9, 'tokens_per_second': 1000.0},
            'one_by_one': [row(n, s, **whole) for n, s in zip(names, (200.0, 100.0))],
            'job': [row(n, s) for n, s in zip(names, (300.0, 100.0))]}
  text = report.markdown(result)
  assert '2.00X' in text and '0.50X' in text and '3.00X' in text and '20%' in text and 'because.' in text
  assert 'over T5X' in text and 'unreliable' not in text
  assert len(report.picture(result).axes) == 2 and len(report.picture({**result, 'job': []}).axes) == 1
  result['job'][0]['spread'] = 0.5
  assert 'unreliable' in report.markdown(result)
