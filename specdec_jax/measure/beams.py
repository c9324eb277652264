"""Beam searches timed side by side: a search as a method, and what is reported of it."""

import dataclasses

import numpy as np

from specdec_jax.beam.results import BeamResult
from specdec_jax.beam.search import beam_search
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.jobs.batching import Batch
from specdec_jax.measure.timing import Timed
from specdec_jax.model import Model
from specdec_jax.results import acceptance_rate


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamMethod:
  """A search's settings as one callable; without a drafter it is the plain one."""

  num_beams: int
  alpha: float
  max_decode_len: int
  drafter: ModelDrafter | Model | None = None
  draft_beams: int | None = None
  gamma: int | None = None
  num_return: int | None = None

  @property
  def name(self) -> str:
    return ('plain search' if self.drafter is None else
            f'drafter: {self.drafter.name}, {self.draft_beams} draft beams, gamma {self.gamma}')

  def __call__(self, target: Model, batch: Batch) -> BeamResult:
    """Searches a batch."""
    return beam_search(target, batch.tokens, self.num_beams, self.alpha, self.max_decode_len,
                       drafter=self.drafter, draft_beams=self.draft_beams, gamma=self.gamma,
                       num_return=self.num_return)


def figures_of(timed: Timed, batches) -> dict:
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


def compared(plain: Timed, drafted: Timed, batches, margin: float) -> dict:
  """A speculative search beside the plain one.

  best_identical and identical count the examples whose best text, whose every beam, is the
  same; different those whose scores are further apart than `margin`.
  """
  figures = figures_of(drafted, batches)
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


def texts(target, inputs, batches, plain, drafted, count) -> list[dict]:
  """The first examples with their best texts; where `num_return` says how many, with these, best first."""
  place = {int(index): (b, row) for b, batch in enumerate(batches)
           for row, index in enumerate(batch.indices)}
  shown = []
  for index in range(min(count, len(inputs.rows))):
    b, row = place[index]
    best = lambda timed, b=b, row=row: target.decode(timed.results[b].tokens[row, -1:])[0]
    found = plain.results[b]
    one = {'source': inputs.examples[index].source, 'plain': best(plain), 'speculative': best(drafted),
           'score': float(found.scores[row, -1])}
    if plain.method.num_return is not None:
      kept = np.flatnonzero(found.lengths[row])[::-1]  # slots that are not empty
      one['beams'] = [{'text': text, 'score': float(score)} for text, score in zip(
          target.decode(found.tokens[row, kept]), found.scores[row, kept])]
    shown.append(one)
  return shown
