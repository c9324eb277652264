"""Beam search with T5X's conventions: the target alone, or with a draft and the same result."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import struct
from jax import lax

from specdec_jax import compilation
from specdec_jax.beam import state as beam_state
from specdec_jax.beam.results import BeamResult, BeamStats
from specdec_jax.beam.speculative import speculative_loop
from specdec_jax.checks import MOST_DRAFTED, MOST_TOKENS, whole
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.errors import SettingError
from specdec_jax.model import Model
from specdec_jax.results import Status
from specdec_jax.sampling import Sampling
from specdec_jax.standardizer import Standardizer


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeamSettings:
  """Everything static about a search; draft_beams = gamma = 0 is the plain one."""

  num_beams: int
  max_decode_len: int
  draft_beams: int = 0
  gamma: int = 0


class SearchState(struct.PyTreeNode):
  """The plain loop's carry; a cache row for every beam."""

  beams: beam_state.Beams
  cache: Any


def beam_search(target, tokens, num_beams: int = 4, alpha: float = 0.6, max_decode_len: int = 128, *,
                drafter: ModelDrafter | Model | None = None, draft_beams: int | None = None,
                gamma: int | None = None, num_return: int | None = None) -> BeamResult:
  """The best texts of every row; a draft makes it faster and changes no result.

  Args:
    target: the `Model` whose texts are searched.
    tokens: int [B, S], encoder tokens, 0-padded on the right.
    num_beams: width of the search.
    alpha: of the length penalty, 0 for none.
    max_decode_len: most tokens of a text, EOS counted.
    drafter: a `ModelDrafter` or its model, or None for the plain search.
    draft_beams: drafted hypotheses at every step, at least num_beams [app. A.4]; num_beams
      by default.
    gamma: drafted steps an iteration, at least 1; 4 by default.
    num_return: W, how many of the beams are returned, the best; all by default.

  Returns:
    `BeamResult`, on the host.
  """
  tokens = target.check_tokens(tokens)
  if target.config.decoder_only:
    raise SettingError('beam_search is for models with an encoder; this one is decoder-only.')
  num_beams = _beams('num_beams', num_beams, 1, target)
  max_decode_len = whole('max_decode_len', max_decode_len, 1, MOST_TOKENS)
  if not 0 <= alpha < float('inf'):
    raise SettingError(f'alpha is {alpha}; it must be at least 0 (no length penalty) and finite.')
  settings = BeamSettings(num_beams=num_beams, max_decode_len=max_decode_len)
  if drafter is None:
    ignored = [f'{n} = {v}' for n, v in (('draft_beams', draft_beams), ('gamma', gamma))
               if v is not None]
    if ignored:
      raise SettingError(f"{' and '.join(ignored)} would be ignored: there is no drafter, so this is "
                       'the plain search; set a drafter or leave it out.')
  else:
    if isinstance(drafter, Model):
      drafter = ModelDrafter(drafter)
    if not isinstance(drafter, ModelDrafter):
      raise SettingError(f'drafter is a {type(drafter).__name__}, which has no beams; beam search is '
                       'drafted by a ModelDrafter.')
    if drafter.drafter is not None or drafter.sampling is not None:
      raise SettingError(f'drafter is a {drafter.name}; beams are the draft\'s most probable ones: leave '
                         'ModelDrafter.drafter and .sampling out.')
    drafter.check(target)
    settings = dataclasses.replace(
        settings, gamma=whole('gamma', 4 if gamma is None else gamma, 1, MOST_DRAFTED),
        draft_beams=_beams('draft_beams', num_beams if draft_beams is None else draft_beams,
                           num_beams, target, ' (num_beams)'))
  draft = None if drafter is None else drafter.draft
  kept = num_beams if num_return is None else whole('num_return', num_return, 1, num_beams, ' (num_beams)')
  found = jax.device_get(search(target, draft, tokens, np.float32(alpha), settings))
  return found.replace(tokens=found.tokens[:, -kept:], lengths=found.lengths[:, -kept:], scores=found.scores[:, -kept:])


def _beams(name, value, least, target, hint='') -> int:
  value, most = whole(name, value, least, hint=hint), target.config.vocab_size
  if value > most:
    raise SettingError(f'{name} is {value}, but the model has only {most} tokens; take fewer beams.')
  return value


@functools.partial(compilation.jit, static_argnames='settings')
def search(target, draft, tokens, alpha, settings: BeamSettings) -> BeamResult:
  """The compiled program: one device call for a whole batch."""
  standardizer = Standardizer.of_target(target, Sampling())
  beams = beam_state.start(
      target.decoder_prefix(tokens)[0][:, 0], settings.num_beams, settings.max_decode_len)
  if draft is None:
    beams, stats = _plain_loop(target, standardizer, tokens, alpha, beams)
  else:
    beams, stats = speculative_loop(
        target, draft, standardizer, tokens, alpha, beams, settings.draft_beams, settings.gamma)
  texts, lengths, scores = beam_state.finish(beams, target.eos_ids)
  return BeamResult(tokens=texts, lengths=lengths, scores=scores, status=beams.status, stats=stats)


def _plain_loop(target, standardizer, tokens, alpha, beams):
  batch, width, room = beams.tokens.shape
  # The encoder has run once a row; its keys and values stand in the row's every beam.
  cache = jax.tree.map(lambda leaf: jnp.repeat(leaf, width, axis=0), target.prefill(tokens, room))
  rows = jnp.arange(batch)[:, None] * width

  def one(state: SearchState) -> SearchState:
    beams = state.beams
    logits, cache = target.step(state.cache, beams.last.reshape(-1, 1), jnp.repeat(beams.step, width))
    found = beam_state.candidates(logits.reshape(batch, width, -1), standardizer, width)
    beams, parent = beam_state.advance(beams, found, beams.running, target.eos_ids, alpha)
    return SearchState(beams, _reorder(state.cache, cache, (rows + parent).reshape(-1)))

  beams = lax.while_loop(
      lambda s: jnp.any(s.beams.running), one, SearchState(beams, cache)).beams
  none = jnp.zeros(batch, jnp.int32)
  calls = beams.step + (beams.status == Status.NON_FINITE)
  return beams, BeamStats(target_calls=calls, steps=beams.step, drafted=none, accepted=none)


def _reorder(before, after, rows):
  """Gathers the rows of what a step has changed; the rest is the same in all beams of an input."""
  return jax.tree.map(lambda b, a: a if a is b else a[rows], before, after)
