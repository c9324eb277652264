"""The distribution of decoded texts is the target's own: every text enumerated, chi-square over many rows.

The same check must reject an inexact setting and every broken rule.
"""

import chisquare
import jax
import loops
import numpy as np
import pytest
import reference
import toy
from enumerated import DRAFTS, LENGTH, ROWS, TARGET, check
from scipy import stats

import specdec_jax as sd
from specdec_jax import rule as speculative, sampling as sampling_lib
from specdec_jax.standardizer import Standardizer

TIED = TARGET.replace(params=np.round(TARGET.params))

SETTINGS = [
    (1, sd.Sampling()),
    (3, sd.Sampling(temperature=0.5)),
    (3, sd.Sampling(temperature=1.7)),
    (4, sd.Sampling(top_k=2)),
    (5, sd.Sampling(top_p=0.8)),
    (2, sd.Sampling(temperature=1.7, top_k=3, top_p=0.9)),
    (2, sd.Sampling(temperature=0.5, top_k=3, top_p=0.6)),
]


# Every draft with the paper's own sampling, every sampling with some of them; the other pairs are long tests.
PAIRS = [pytest.param(*setting, kind, id=f"{setting[0]}-{str(setting[1]).replace('Sampling', '')}-{kind}",
                      marks=() if i == 0 or (i + j) % 3 == 0 else pytest.mark.long)
         for i, setting in enumerate(SETTINGS) for j, kind in enumerate(DRAFTS)]


@pytest.mark.parametrize('gamma, sampling, kind', PAIRS)
def test_texts_follow_the_target(gamma, sampling, kind):
  p_value, r = check(TARGET, DRAFTS[kind], gamma=gamma, sampling=sampling, seed=gamma)
  assert p_value > chisquare.ACCEPT
  if kind == 'itself':
    assert r.stats.acceptance_rate == 1.0


@pytest.mark.parametrize('gamma, sampling', SETTINGS[3:], ids=lambda v: str(v).replace('Sampling', ''))
def test_ties_follow_the_target(gamma, sampling):
  tied_draft = DRAFTS['another'].replace(params=np.round(DRAFTS['another'].params))
  p_value, _ = check(TIED, tied_draft, gamma=gamma, sampling=sampling, source=1)
  assert p_value > chisquare.ACCEPT


@pytest.mark.parametrize('gamma, sampling', SETTINGS[:3], ids=lambda v: str(v).replace('Sampling', ''))
def test_draft_of_other_tokens_follows_the_target(gamma, sampling):
  p_value, r = check(toy.only(TARGET, [1, 2]), toy.only(TARGET, [0, 3]), gamma=gamma, sampling=sampling)
  assert p_value > chisquare.ACCEPT
  assert r.stats.accepted.sum() == 0


def test_baseline_follows_the_target():
  r = sd.autoregressive_decode(TARGET, toy.sources(ROWS, 1), max_decode_len=LENGTH)
  distribution = reference.text_distribution(TARGET, 1, LENGTH, sd.Sampling())
  assert chisquare.texts(r.tokens, r.lengths, distribution) > chisquare.ACCEPT


@pytest.mark.long
@pytest.mark.parametrize('seed', range(5))
def test_texts_follow_the_target_over_half_a_million_rows(seed):
  p_value, _ = check(toy.random_toy(10 + seed), toy.random_toy(20 + seed), gamma=3, rows=500_000,
                     seed=seed, source=seed % 2)
  assert p_value > chisquare.ACCEPT


@pytest.mark.parametrize('kind', ['another', 'contrary', 'itself'])
def test_late_tokens_follow_the_three_before_them(kind):
  """Far into a text, after many rewinds, the next token still depends on the right past."""
  lasting = toy.random_toy(0, eos=-20.0)
  draft = DRAFTS[kind].replace(params=DRAFTS[kind].params.at[..., toy.EOS].add(-20.0))
  r = sd.speculative_decode(lasting, sd.ModelDrafter(draft), toy.sources(ROWS), gamma=3,
                            max_decode_len=16)
  size = lasting.config.vocab_size
  for start in (6, 12):
    seen = np.zeros([size] * 4)
    np.add.at(seen, tuple(r.tokens[:, start:start + 4].T), 1)
    distribution = np.zeros_like(seen)
    for past in toy.prefixes(size, 3):
      distribution[past] = reference.next_distribution(lasting, 0, past, sd.Sampling())
    others = [0, 2, 3]
    distribution, seen = distribution[..., others], seen[..., others]
    assert chisquare.conditional(seen, distribution / distribution.sum(-1, keepdims=True)) > chisquare.ACCEPT


def test_rows_with_the_same_input_are_independent():
  _, r = check(TARGET, DRAFTS['another'], gamma=3, sampling=SETTINGS[2][1])
  pairs = np.zeros((16, 16))
  code = r.tokens[:, 0] * 4 + r.tokens[:, 1]
  np.add.at(pairs, (code[::2], code[1::2]), 1)
  used = lambda table: table[table.sum(1) > 20][:, table.sum(0) > 20]
  assert stats.chi2_contingency(used(pairs)).pvalue > chisquare.ACCEPT
  np.add.at(pairs, (code, code), 1)  # so that the check can fail
  assert stats.chi2_contingency(used(pairs)).pvalue < chisquare.REJECT


# What the check must reject.


def test_lenience_is_rejected_and_bounded():
  p_value, r = check(TARGET, DRAFTS['another'], gamma=3, lenience=0.5)
  assert p_value < chisquare.REJECT
  first = np.bincount(r.tokens[:, 0], minlength=4) / ROWS
  p = reference.next_distribution(TARGET, 0, (0,), sd.Sampling())
  assert (first < p / 0.5 + 0.02).all()


def test_lenience_at_temperature_0_keeps_what_is_nearly_the_maximum():
  """Every token is the target's first maximum, or as likely as lenience allows; some are the latter."""
  greedy, lenience = sd.Sampling(temperature=0), 0.6
  near, others = 0, {}
  for seed in range(6):
    target, draft = toy.random_toy(seed), sd.ModelDrafter(toy.scaled(toy.random_toy(seed + 50), 1.0))
    decode = lambda target=target, draft=draft, **options: sd.speculative_decode(
        target, draft, toy.sources(1), gamma=3, sampling=greedy, max_decode_len=LENGTH, **options)
    lenient, exact = decode(lenience=lenience), decode()
    past = (target.config.decoder_start_id,)
    for token in lenient.tokens[0, :lenient.lengths[0]].tolist():
      p = reference.next_distribution(target, 0, past, sd.Sampling())
      assert p[token] >= lenience * p.max() * (1 - 1e-5)
      near += token != p.argmax()
      past += (token,)
    others[seed] = lenient.stats.accepted.sum() - exact.stats.accepted.sum()
  assert near and max(others.values()) > 0


def patched_decode(target, drafter, *, gamma, source=0, rows=ROWS):
  """As `check`, compiled afresh, so that a patched part of the loop is the one that runs."""
  r = loops.afresh(target, drafter, toy.sources(rows, source), gamma=gamma, max_decode_len=LENGTH)
  distribution = reference.text_distribution(target, source, LENGTH, sd.Sampling())
  return chisquare.texts(r.tokens, r.lengths, distribution)


def other_rule(*, accept=None, next_distribution=None, uniform=None):
  """`verify_tree` of a chain with one part replaced."""
  accept = accept or (lambda u, q, p: u * q < p)
  next_distribution = next_distribution or speculative.residual
  uniform = uniform or (lambda key, gamma: jax.random.uniform(key, (gamma,)))

  def rule(p, q, draft, tree, key, lenience):
    del lenience
    gamma, at = len(q), np.arange(len(q))
    u_key, next_key = jax.random.split(key)
    kept = accept(uniform(u_key, gamma), q[at, draft], p[at, draft])
    n = jax.numpy.cumprod(kept.astype(int)).sum()
    q_next = jax.numpy.where(n < gamma, q[jax.numpy.minimum(n, gamma - 1)], 0.0)
    return np.arange(gamma, dtype=np.int32), n, sampling_lib.sample(next_distribution(p[n], q_next), next_key)

  return rule


BROKEN_RULES = {
    'draws from p after a rejection': other_rule(next_distribution=lambda p, q: p),
    'one u for all positions': other_rule(
        uniform=lambda key, gamma: jax.numpy.full(gamma, jax.random.uniform(key))),
    'accepts where p is at least q': other_rule(accept=lambda u, q, p: q <= p),
    'ratio the wrong way round': other_rule(accept=lambda u, q, p: u * p < q),
    'accepts everything': other_rule(accept=lambda u, q, p: u >= 0),
}


def test_patched_decode_accepts_the_right_rule(monkeypatch):
  monkeypatch.setattr(speculative, 'verify_tree', other_rule())
  drafter = sd.ModelDrafter(DRAFTS['another'])
  assert patched_decode(TARGET, drafter, gamma=3) > chisquare.ACCEPT


@pytest.mark.parametrize('name', BROKEN_RULES)
def test_broken_rule_is_rejected(name, monkeypatch):
  monkeypatch.setattr(speculative, 'verify_tree', BROKEN_RULES[name])
  drafter = sd.ModelDrafter(DRAFTS['another'])
  assert patched_decode(TARGET, drafter, gamma=3) < chisquare.REJECT


class ArgmaxDrafter(sd.ModelDrafter):
  """Drafts the most probable token but reports the soft distribution."""

  def propose(self, state, text, tree, keys, standardizer):
    greedy = ArgmaxStandardizer(**{f: getattr(standardizer, f) for f in standardizer.__dataclass_fields__})
    return super().propose(state, text, tree, keys, greedy)


class ArgmaxStandardizer(Standardizer):

  def sample(self, processed, keys):
    _, probs = super().sample(processed, keys)
    return probs.argmax(-1).astype('int32'), probs


def test_argmax_draft_with_a_soft_distribution_is_rejected():
  p_value, _ = check(TARGET, ArgmaxDrafter(DRAFTS['another']), gamma=3)
  assert p_value < chisquare.REJECT


def test_cache_that_adds_to_its_slots_is_rejected():
  adding = toy.AddingToy(params=TARGET.params, config=TARGET.config)
  p_value, _ = check(adding, DRAFTS['another'], gamma=3)
  assert p_value < chisquare.REJECT


def test_keys_that_forget_the_position_are_rejected(monkeypatch):
  fold_in, calls = jax.random.fold_in, []

  def only_ids(key, data):
    calls.append(data)
    return fold_in(key, data) if len(calls) == 1 else key

  monkeypatch.setattr(jax.random, 'fold_in', only_ids)
  drafter = sd.ModelDrafter(DRAFTS['another'])
  assert patched_decode(TARGET, drafter, gamma=3) < chisquare.REJECT
