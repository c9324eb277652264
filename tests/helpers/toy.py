"""A model small enough to enumerate: a table of logits, behind the interface of `Model`.

The distribution of the next token depends on the encoder row and on the last three decoder
tokens. These are read back by absolute position from a cache that holds what was
fed there, so that a wrong rewind or a missing entry is a wrong distribution.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from specdec_jax.model import Model
from specdec_jax.models.config import T5Config
from specdec_jax.models.hidden import Hidden

EOS = 1
NUM_SOURCES = 2  # how many different inputs the table tells apart


class Toy(Model):
  """`params` is the table, float32 [source, V + 1, V + 1, V, V]: logits after three tokens.

  Index V stands for "nothing yet", before the start and in cache slots never written.
  """

  def prefill(self, tokens, cache_length):
    nothing = self.config.vocab_size
    return {'source': tokens.sum(1) % NUM_SOURCES,
            'fed': jnp.full((tokens.shape[0], cache_length), nothing, jnp.int32)}

  def step(self, cache, tokens, positions):
    fed = self.write(cache['fed'], tokens, positions)
    at = positions[:, None] + jnp.arange(tokens.shape[1])

    def back(distance):
      found = jnp.take_along_axis(fed, jnp.maximum(at - distance, 0), axis=1)
      return jnp.where(at >= distance, found, self.config.vocab_size)

    logits = self.params[cache['source'][:, None], back(2), back(1), back(0)]
    return logits, {**cache, 'fed': fed}

  def tree_step(self, cache, tokens, positions, slots, key_positions, visible):
    fed = self.write(cache['fed'], tokens, slots)
    nothing = self.config.vocab_size

    def back(distance):  # the token that a node sees so many places before it in its text
      there = visible & (key_positions[:, None] == positions[..., None] - distance)
      found = jnp.where(there, fed[:, None], 0).sum(-1)  # two at one position are a wrong token
      return jnp.where(there.any(-1), found, nothing)

    logits = self.params[cache['source'][:, None], back(2), back(1), back(0)]
    return logits, {**cache, 'fed': fed}, tokens[:, None, :, None]  # [B, H, n, D], as in a network

  def commit(self, cache, block, nodes, slots):
    chosen = jnp.take_along_axis(block[:, 0, :, 0], nodes, axis=1)
    return {**cache, 'fed': self.write(cache['fed'], chosen, slots)}

  def with_hidden(self, method, *args):
    """Its hidden states are its logits, and its encoder's output the tokens themselves."""
    result = getattr(self, method)(*args)
    return result, Hidden(encoded=self.embed(args[0]), last=None) if method == 'prefill' else Hidden(
        encoded=None, last=result[0])

  def embed(self, tokens):
    return jax.nn.one_hot(tokens, self.config.vocab_size)

  def to_logits(self, hidden):
    return hidden.astype(jnp.float32)

  def write(self, fed, tokens, positions):
    return jax.vmap(lambda row, new, at: lax.dynamic_update_slice(row, new, (at,)))(
        fed, tokens, positions)

  def next_logits(self, source: int, tokens) -> np.ndarray:
    """Logits float64 [V] after decoder tokens (the start token first), without a cache."""
    nothing = self.config.vocab_size
    context = [nothing, nothing, *map(int, tokens)][-3:]
    return np.asarray(self.params, np.float64)[(source, *context)]


class AddingToy(Toy):
  """A cache that believes its slots empty, as T5X's: a slot once written is never replaced."""

  def write(self, fed, tokens, positions):
    return jnp.where(fed == self.config.vocab_size, super().write(fed, tokens, positions), fed)


def config(vocab_size: int, **changes) -> T5Config:
  return T5Config(vocab_size=vocab_size, emb_dim=1, num_heads=1, mlp_dim=1, num_encoder_layers=1,
                  num_decoder_layers=1, eos_id=EOS, **changes)


def random_toy(seed: int, vocab_size: int = 4, spread: float = 1.0, eos: float = 0.0,
               **changes) -> Toy:
  """Normal logits of standard deviation `spread`; `eos` is added to EOS's."""
  shape = (NUM_SOURCES, vocab_size + 1, vocab_size + 1, vocab_size, vocab_size)
  table = spread * np.random.default_rng(seed).normal(size=shape)
  table[..., EOS] += eos
  return Toy(params=jnp.asarray(table, jnp.float32), config=config(vocab_size, **changes))


def scaled(toy: Toy, factor: float) -> Toy:
  """Sharper (> 1), flatter (< 1), uniform (0) or contrary (< 0)."""
  return toy.replace(params=toy.params * factor)


def only(toy: Toy, tokens) -> Toy:
  """The same distributions, conditioned on some tokens (the others' probability is below 1e-30)."""
  away = np.full(toy.config.vocab_size, -80.0, np.float32)
  away[list(tokens)] = 0
  return toy.replace(params=toy.params + away)


def sources(batch: int, source: int = 0) -> np.ndarray:
  """Encoder tokens [batch, 2] that stand for one of the table's sources."""
  return np.tile(np.array([[2, source + 2]], np.int32), (batch, 1))


def prefixes(vocab_size: int, length: int):
  return itertools.product(range(vocab_size), repeat=length)
