"""The beam run: plain and speculative beam search over the same examples."""

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import gin
import numpy as np

from specdec_jax.analysis import reliability
from specdec_jax.beam.results import BeamResult
from specdec_jax.beam.search import beam_search
from specdec_jax.errors import RunFailed, SettingError
from specdec_jax.jobs import batching, output
from specdec_jax.measure.agreement import TIE_MARGINS
from specdec_jax.measure.timing import Timed, time_methods
from specdec_jax.model import Model
from specdec_jax.reports import beam_search as beam_report
from specdec_jax.reports.words import model_name
from specdec_jax.results import acceptance_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamMethod:
  """A search's settings as one callable; without a drafter it is the plain one."""

  num_beams: int
  alpha: float
  max_decode_len: int
  drafter: Any = None
  draft_beams: int | None = None
  gamma: int | None = None

  def __call__(self, target, batch) -> BeamResult:
    """Searches a `batching.Batch`."""
    return beam_search(target, batch.tokens, self.num_beams, self.alpha, self.max_decode_len,
                       drafter=self.drafter, draft_beams=self.draft_beams, gamma=self.gamma)


def beam(output_dir: str, target: Model = gin.REQUIRED, examples: Iterable = gin.REQUIRED,
         drafter: Any = gin.REQUIRED, num_beams: int = 4, alpha: float = 0.6,
         draft_beams: Sequence[int] = (4, 8), gammas: Sequence[int] = (4,), batch_size: int = 1,
         repeats: int = 1, max_decode_len: int = 128, max_input_len: int = 512,
         long_inputs: str = 'refuse', prefix: str = '', buckets: Sequence[int] = (),
         tie_margin: float | None = None, shown_examples: int = 3) -> dict:
  """Writes report.json and report.md into output_dir and prints the table.

  Args:
    output_dir: claimed by `launch.main`.
    target, examples, batch_size, max_decode_len, max_input_len, long_inputs, prefix,
      buckets: as in `decode`.
    drafter: a `ModelDrafter`.
    num_beams, alpha: width of the search and its length penalty.
    draft_beams, gammas: drafted hypotheses and steps, each with each.
    repeats: timings of each batch; their median counts.
    tie_margin: difference of scores up to which another set of beams is a tie; by the
      target's dtype where None.
    shown_examples: how many texts are printed.

  Returns:
    The report.

  Raises:
    RunFailed: the two searches differ by more than a tie; the report is written first.
  """
  if not gammas or not draft_beams:
    raise SettingError('beam needs at least one gamma and one number of draft beams; set beam.gammas '
                     'and beam.draft_beams.')
  plain = BeamMethod(num_beams=num_beams, alpha=alpha, max_decode_len=max_decode_len)
  methods = [plain] + [dataclasses.replace(plain, drafter=drafter, draft_beams=u, gamma=g)
                       for u, g in itertools.product(draft_beams, gammas)]
  inputs = batching.encode(target, examples, max_input_len, long_inputs, prefix)
  batches = batching.batches(inputs, batch_size, max_input_len, buckets=buckets)
  plain, *drafted = time_methods(target, methods, batches, repeats, 'beam search')

  margin = TIE_MARGINS[target.config.dtype] if tie_margin is None else tie_margin
  result = {'target': model_name(target), 'drafter': drafter.name,
            'examples': len(inputs.rows), 'cut_inputs': inputs.cut, 'num_beams': num_beams,
            'alpha': alpha, 'batch_size': batch_size, 'repeats': repeats,
            'max_decode_len': max_decode_len, 'tie_margin': margin,
            'device': output.environment()['device'], 'plain': _figures(plain, batches),
            'speculative': [_compared(plain, s, batches, margin) for s in drafted],
            'unreliable': reliability.of_repeats({'plain': plain.spread} | {
                beam_report.name(u, g): s.spread
                for s in drafted for u, g in [(s.method.draft_beams, s.method.gamma)]}),
            'texts': _texts(target, inputs, batches, plain, drafted[0], shown_examples)}
  output.write_json(output_dir, 'report.json', result)
  text = beam_report.markdown(result)
  output.write(output_dir, 'report.md', text)
  print(text)
  wrong = sum(s['different'] for s in result['speculative'])
  if wrong:
    raise RunFailed(
        f'{wrong} speculative searches returned beams whose scores differ from the plain search\'s by '
        f'more than {margin} (the most is {max(s["score_difference"] for s in result["speculative"])});'
        ' set beam.tie_margin if the target rounds more coarsely than that, else please report it.')
  return result


def _figures(timed: Timed, batches) -> dict:
  """One search's figures over all examples, JSON-ready."""
  count = lambda name: timed.count(name, batches)
  texts = sum(len(b.indices) for b in batches)
  drafted = count('drafted')
  return {'draft_beams': timed.method.draft_beams, 'gamma': timed.method.gamma,
          'seconds': float(timed.seconds.sum()), 'warm_up_seconds': timed.warm_up_seconds,
          'texts_per_second': texts / float(timed.seconds.sum()),
          'target_calls': count('target_calls'), 'calls_per_text': count('target_calls') / texts,
          'steps': count('steps'), 'steps_per_call': count('steps') / count('target_calls'),
          'drafted': drafted, 'accepted': count('accepted'),
          'acceptance_rate': acceptance_rate(count('accepted'), drafted)}


def _compared(plain: Timed, drafted: Timed, batches, margin: float) -> dict:
  """A speculative search beside the plain one.

  best_identical and identical count the examples whose best text, whose every beam, is the
  same; different those whose scores are further apart than `margin`.
  """
  figures = _figures(drafted, batches)
  best_identical = identical = different = 0
  farthest = 0.0
  for batch, p, s in zip(batches, plain.results, drafted.results):
    real = slice(len(batch.indices))
    same = (p.tokens[real] == s.tokens[real]).all(2)
    apart = np.abs(p.scores[real] - s.scores[real]).max(1)
    best_identical += int(same[:, -1].sum())
    identical += int(same.all(1).sum())
    different += int((apart > margin).sum())
    farthest = max(farthest, float(apart.max()))
  return {**figures, 'speed_up': float(plain.seconds.sum()) / figures['seconds'],
          'best_identical': best_identical, 'identical': identical, 'different': different,
          'score_difference': farthest}


def _texts(target, inputs, batches, plain, drafted, count) -> list[dict]:
  """The first examples with their best texts."""
  place = {int(index): (b, row) for b, batch in enumerate(batches)
           for row, index in enumerate(batch.indices)}
  shown = []
  for index in range(min(count, len(inputs.rows))):
    b, row = place[index]
    best = lambda timed, b=b, row=row: target.decode(timed.results[b].tokens[row, -1:])[0]
    shown.append({'source': inputs.examples[index].text, 'plain': best(plain),
                  'speculative': best(drafted), 'score': float(plain.results[b].scores[row, -1])})
  return shown
