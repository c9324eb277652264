"""A decoder-only model small enough to enumerate: the table of `toy`, read behind prompts."""

import chisquare
import jax.numpy as jnp
import numpy as np
import reference
import toy

import specdec_jax as sd
from specdec_jax.models.config import GPT2Config

PROMPTS = [(3,), (2, 0, 3), (3, 2, 0, 0)]  # one ends in id 0, the padding of the others
TOKENS = np.array([[*p, 0, 0, 0, 0][:4] for p in PROMPTS], np.int32)
LENGTHS = np.array([len(p) for p in PROMPTS], np.int32)


class PromptedToy(toy.Toy):
  """Its cache holds the prompts from slot 0 on, padding included, as GPT-2's does."""

  def prefill(self, tokens, cache_length):
    nothing = self.config.vocab_size
    fed = jnp.full((tokens.shape[0], cache_length), nothing, jnp.int32)
    return {'source': jnp.zeros(tokens.shape[0], jnp.int32),
            'fed': fed.at[:, :tokens.shape[1]].set(tokens)}


def prompted(table: toy.Toy) -> PromptedToy:
  size = table.config.vocab_size
  config = GPT2Config(vocab_size=size, emb_dim=1, num_heads=1, num_layers=1, max_positions=64, eos_id=toy.EOS)
  return PromptedToy(params=table.params, config=config)


def check(target, draft, *, gamma, sampling=sd.Sampling(), length=4, rows=9_000, distribution_of=None, behind=None,
          **options):
  """Decodes many rows of all prompts in one batch: a p-value for each prompt, and the result.

  `law_of` and `behind` take the distribution of another model, or behind one of the prompts, for the true one.
  """
  tokens, lengths = np.tile(TOKENS, (rows // 3, 1)), np.tile(LENGTHS, rows // 3)
  r = sd.speculative_decode(target, sd.ModelDrafter(draft), tokens, lengths=lengths, gamma=gamma,
                            sampling=sampling, max_decode_len=length, **options)
  distribution = lambda i: reference.text_distribution(distribution_of or target, 0, length, sampling,
                                     given=PROMPTS[i if behind is None else behind])
  return [chisquare.texts(r.tokens[i::3], r.lengths[i::3], distribution(i)) for i in range(len(PROMPTS))], r
