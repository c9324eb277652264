"""Temperature 0: the text is the target's own greedy text, whatever the draft, gamma or batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
import tiny
import toy

import specdec_jax as sd

GREEDY = sd.Sampling(temperature=0)
TOY = toy.random_toy(3, vocab_size=6, eos=-1.0)
TOY_DRAFTS = {
    'another': toy.random_toy(4, vocab_size=6),
    'itself': TOY,
    'contrary': toy.scaled(TOY, -1.0),
    'all tokens equal': toy.scaled(TOY, 0.0),
    'near': TOY.replace(params=TOY.params + 0.3 * toy.random_toy(5, vocab_size=6).params),
}
LENGTH = 12


@pytest.mark.parametrize('gamma', [
    1, 2, 4, 8, *[pytest.param(g, marks=pytest.mark.long) for g in (3, 5, 6, 7)]])
def test_toy_equals_plain_greedy(gamma):
  tokens = np.concatenate([toy.sources(1, 0), toy.sources(1, 1)])
  for source in range(2):
    text = [0]
    while len(text) <= LENGTH and toy.EOS not in text[1:]:
      text.append(int(np.argmax(TOY.next_logits(source, text))))
    for draft in TOY_DRAFTS.values():
      r = sd.speculative_decode(TOY, sd.ModelDrafter(draft), tokens, gamma=gamma, sampling=GREEDY,
                                max_decode_len=LENGTH)
      assert r.tokens[source, :r.lengths[source]].tolist() == text[1:]


def test_toy_ties_take_the_first_maximum_in_both_models():
  tied = TOY.replace(params=np.round(TOY.params))
  tokens = np.concatenate([toy.sources(1, 0), toy.sources(1, 1)])
  base = sd.autoregressive_decode(tied, tokens, sampling=GREEDY, max_decode_len=LENGTH)
  for source in range(2):
    text = [0, *base.tokens[source, :base.lengths[source]].tolist()]
    for at in range(1, len(text)):
      assert reference.next_distribution(tied, source, text[:at], GREEDY)[text[at]] == 1
  r = sd.speculative_decode(tied, sd.ModelDrafter(tied), tokens, gamma=3, sampling=GREEDY,
                            max_decode_len=LENGTH)
  np.testing.assert_array_equal(r.tokens, base.tokens)
  assert r.stats.acceptance_rate == 1.0


TARGET = tiny.random_t5(0)
DRAFTS = {
    'another': tiny.random_t5(1),
    'itself': TARGET,
    'contrary': tiny.contrary(TARGET),
    'near': TARGET.replace(params=jax.tree.map(
        lambda a, b: a + 0.1 * b, TARGET.params, tiny.random_t5(1).params)),
}


def baseline(model, tokens):
  return sd.autoregressive_decode(model, tokens, sampling=GREEDY, max_decode_len=LENGTH)


@pytest.mark.parametrize('gamma, batch', [
    (8, 5), *[pytest.param(g, 5, marks=pytest.mark.long) for g in (1, 2, 3, 4, 5, 6, 7)],
    pytest.param(3, 1, marks=pytest.mark.long), pytest.param(7, 1, marks=pytest.mark.long)])
def test_t5_equals_its_own_greedy_text(gamma, batch):
  tokens = tiny.inputs(5)[:batch]
  base = baseline(TARGET, tiny.inputs(5))
  assert len(set(base.tokens.ravel().tolist())) > 8  # the texts say something
  for kind, draft in DRAFTS.items():
    r = sd.speculative_decode(TARGET, sd.ModelDrafter(draft), tokens, gamma=gamma, sampling=GREEDY,
                              max_decode_len=LENGTH)
    tiny.assert_same_text(TARGET, tokens, r.tokens, base.tokens[:batch])
    np.testing.assert_allclose(r.scores, base.scores[:batch], atol=1e-3)
    if kind == 'itself':
      assert r.stats.acceptance_rate == 1.0
    if kind == 'contrary':
      assert r.stats.accepted.sum() == 0 and r.stats.tokens_per_call == 1.0


def test_t5_baseline_equals_the_teacher_forced_argmax():
  tokens = tiny.inputs(5)
  base = baseline(TARGET, tokens)
  before = np.pad(base.tokens, ((0, 0), (1, 0)))[:, :-1]
  logits = np.asarray(TARGET.logits(tokens, before))[..., :tiny.PIECES]
  text = np.arange(LENGTH) < base.lengths[:, None]
  np.testing.assert_array_equal(logits.argmax(-1)[text], base.tokens[text])
  log_probs = np.asarray(jax.nn.log_softmax(logits))
  chosen = np.take_along_axis(log_probs, base.tokens[..., None], -1)[..., 0]
  np.testing.assert_allclose(base.scores, (chosen * text).sum(1), atol=1e-3)


def test_margin_report_fails_on_a_real_difference():
  tokens = tiny.inputs(5)
  base = baseline(TARGET, tokens).tokens
  wrong = base.copy()
  wrong[2, 1] = (wrong[2, 1] + 1) % tiny.PIECES
  with pytest.raises(AssertionError, match='row 2 differs at 1 where the best token leads by'):
    tiny.assert_same_text(TARGET, tokens, wrong, base)


def test_bfloat16_text_differs_only_at_ties():
  half = lambda m: m.replace(params=jax.tree.map(lambda x: x.astype(jnp.bfloat16), m.params),
                             config=tiny.config(dtype='bfloat16'))
  target, tokens = half(TARGET), tiny.inputs(5)
  base = baseline(target, tokens)
  for draft in (DRAFTS['near'], TARGET):
    r = sd.speculative_decode(target, sd.ModelDrafter(half(draft)), tokens, gamma=3, sampling=GREEDY,
                              max_decode_len=LENGTH)
    tiny.assert_same_text(target, tokens, r.tokens, base.tokens, margin=0.1)
    assert r.scores.dtype == np.float32 and np.isfinite(r.scores).all()
  assert r.stats.acceptance_rate > 0.9  # the target itself
