"""Toy models whose texts are enumerated: many rows decoded, compared with the exact distribution."""

import chisquare
import reference
import toy

import specdec_jax as sd

ROWS, LENGTH = 20_000, 5
TARGET = toy.random_toy(0)
DRAFTS = {
    'another': toy.random_toy(1),
    'itself': TARGET,
    'sharper': toy.scaled(TARGET, 3.0),
    'flatter': toy.scaled(TARGET, 0.3),
    'uniform': toy.scaled(TARGET, 0.0),
    'contrary': toy.scaled(TARGET, -3.0),
}


def check(target, draft, *, gamma, sampling=sd.Sampling(), source=0, length=LENGTH, rows=ROWS,
          processors=(), reference_processors=(), **options):
  """Decodes many rows of one source: the p-value against the exact distribution, and the result."""
  drafter = draft if hasattr(draft, 'propose') else sd.ModelDrafter(draft)
  r = sd.speculative_decode(target, drafter, toy.sources(rows, source), gamma=gamma,
                            sampling=sampling, max_decode_len=length,
                            logits_processors=processors, **options)
  distribution = reference.text_distribution(target, source, length, sampling, reference_processors)
  assert abs(sum(distribution.values()) - 1) < 1e-9
  return chisquare.texts(r.tokens, r.lengths, distribution), r
