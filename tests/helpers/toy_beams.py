"""Toys for beam search: a tree pass over the table, and the search itself by lists in numpy."""

import jax
import jax.numpy as jnp
import numpy as np
import toy
from jax import lax

from specdec_jax.model import Model


class TreeToy(toy.Toy):
  """Reads the tokens before a node from what the call says is visible, and from nothing else."""

  def tree_step(self, cache, tokens, positions, slot, key_positions, visible):
    fed = lax.dynamic_update_slice(cache['fed'], tokens, (0, slot))

    def back(distance):
      there = visible & (key_positions[:, None] == (positions - distance)[..., None])
      found = jnp.where(there, fed[:, None], 0).sum(-1)  # two at one position are a wrong token
      return jnp.where(there.any(-1), found, self.config.vocab_size)

    logits = self.params[cache['source'][:, None], back(2), back(1), back(0)]
    return logits, {**cache, 'fed': fed}

  def tree_copy(self, cache, sources, to):
    fed = jax.vmap(lambda row, s, at: lax.dynamic_update_slice(row, row[s], (at,)))(
        cache['fed'], sources, to)
    return {**cache, 'fed': fed}


def random_toy(seed: int, vocab_size: int = 6, **options) -> TreeToy:
  made = toy.random_toy(seed, vocab_size=vocab_size, **options)
  return TreeToy(params=made.params, config=made.config)


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
