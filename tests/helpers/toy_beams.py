"""Toys for beam search, and the search itself by lists in numpy."""

import numpy as np
import toy

from specdec_jax.model import Model


def random_toy(seed: int, vocab_size: int = 6, **options) -> toy.Toy:
  return toy.random_toy(seed, vocab_size=vocab_size, **options)


def search(model: Model, next_logits, width: int, alpha: float, length: int):
  """[(score, text)], the worst first; next_logits(text) -> [V], text with the start token."""
  penalty = lambda n: ((5 + n) / 6) ** alpha
  live, finished = [(0.0, (model.config.decoder_start_id,))], []
  for n in range(1, length + 1):
    found = []
    for total, text in live:
      logits = np.asarray(next_logits(text), np.float64)
      logits = logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
      found += [(total + logits[t], text + (t,)) for t in range(len(logits))]
    found = sorted(found, reverse=True)[:2 * width]
    ended = lambda text: text[-1] == model.eos_id
    finished += [(total / penalty(n), text) for total, text in found if ended(text)]
    finished = sorted(finished, reverse=True)[:width]
    live = [(total, text) for total, text in found if not ended(text)][:width]
    if not live or (len(finished) == width and finished[-1][0] > live[0][0] / penalty(length + 1)):
      break
  return [(total, text[1:]) for total, text in sorted(finished or live)]
