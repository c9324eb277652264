"""A step of the search where some beams' candidates are not known."""

from hypothesis import given, settings, strategies as st
import jax
import numpy as np
from specdec_jax import beam_state
from specdec_jax.laws import Law
from specdec_jax.sampling import Sampling

ROWS, WIDTH, TOKENS, EOS = 64, 3, 7, 1
advance = jax.jit(lambda *args: beam_state.advance(*args[:3], EOS, 0.6, args[3]))


@jax.jit
def candidates(logits):
  law = Law(sampling=Sampling(), num_rows=TOKENS, num_tokens=TOKENS)
  return beam_state.candidates(logits, law, WIDTH)


def searches(rng):
  """Beams in the middle of a search, some rows with finished texts and some without."""
  beams = jax.device_get(beam_state.start(np.zeros(ROWS, np.int32), WIDTH, 9))
  scores = np.sort(rng.normal(-3, 1, (ROWS, WIDTH)), axis=1).astype(np.float32)
  scores[rng.random(ROWS) < 0.3] = -np.inf
  return beams.replace(
      step=np.full(ROWS, 4, np.int32), scores=scores,
      log_probs=np.sort(rng.normal(-4, 2, (ROWS, WIDTH)), axis=1).astype(np.float32),
      tokens=rng.integers(2, TOKENS, (ROWS, WIDTH, 10)).astype(np.int32),
      finished=rng.integers(2, TOKENS, (ROWS, WIDTH, 10)).astype(np.int32))


def step(seed):
  """(partly known, fully known) results of one step, and what was known."""
  rng = np.random.default_rng(seed)
  beams = searches(rng)
  found = candidates(rng.normal(0, 3, (ROWS, WIDTH, TOKENS)).astype(np.float32))
  known = rng.random((ROWS, WIDTH)) < 0.7
  going = np.ones(ROWS, bool)
  full = advance(beams, found, going, np.ones((ROWS, WIDTH), bool))
  # What stands at unknown beams must not be looked at.
  hidden = found.replace(log_probs=np.where(known[..., None], found.log_probs, np.nan),
                         finite=found.finite & known)
  return jax.device_get((advance(beams, hidden, going, known), full)), known


@settings(max_examples=30)
@given(st.integers(0, 10 ** 6))
def test_a_step_is_taken_only_where_what_is_not_known_cannot_matter(seed):
  (partly, full), known = step(seed)
  moved = partly[0].step == 5
  assert moved[known.all(1)].all()
  jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[moved], b[moved]), partly, full)
  assert (partly[0].status[~moved] == 0).all()


def test_both_cases_are_met():
  (partly, _), known = step(0)
  incomplete = ~known.all(1)
  assert 0.05 < (partly[0].step == 5)[incomplete].mean() < 0.95
