"""A tiny random model of every family, and passes that treat them alike."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import tiny

from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config
from specdec_jax.models.gpt2 import GPT2

ODD = 19  # a token that no input has
OTHERS = np.delete(np.arange(20), ODD)  # tied logits of a broken token are broken everywhere
NAMES = ('t5 v1.1', 't5 v1.0', 'umt5', 'gpt2')
_T5 = {
    't5 v1.1': {},
    't5 v1.0': {'mlp_activations': ('relu',), 'logits_via_embedding': True},
    'umt5': {'relative_bias_per_layer': True},
}


def random_gpt2(seed: int, **changes) -> Model:
  """Weights widened, so that every token depends on all before it."""
  cfg = GPT2Config(**{'vocab_size': 20, 'emb_dim': 16, 'num_heads': 2, 'num_layers': 1,
                      'max_positions': 18, 'eos_id': 1, **changes})
  shapes = jax.eval_shape(GPT2(cfg).init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params']
  rng = np.random.default_rng(seed)
  widen = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * 0.5, jnp.float32)
  return Model(params=jax.tree.map(widen, shapes), config=cfg)


@functools.cache
def make(name: str, seed: int = 0) -> Model:
  """Two decoder layers, 20 tokens."""
  if name == 'gpt2':
    return random_gpt2(seed, num_layers=2)
  return tiny.random_t5(seed, num_decoder_layers=2, num_encoder_layers=2, **_T5[name])


def inputs(model: Model, batch: int) -> tuple:
  """Encoder tokens, where the model has an encoder: (int32 [batch, S],), without ODD, or ()."""
  tokens = tiny.inputs(batch)
  return () if model.config.decoder_only else (np.where(tokens == ODD, 6, tokens),)


def logits(model: Model, given: tuple, tokens) -> np.ndarray:
  """Teacher-forced float32 logits [B, T, V] of decoder tokens [B, T]."""
  return np.asarray(model.logits(*given, decoder_tokens=tokens))


def prefill(model: Model, given: tuple, batch: int, length: int):
  """A cache of `length` slots in which nothing is visible yet."""
  tokens = given[0] if given else np.zeros((batch, 1), np.int32)
  return jax.jit(Model.prefill, static_argnums=2)(model, tokens, length)


step = jax.jit(Model.step)
tree_step = jax.jit(Model.tree_step)
commit = jax.jit(Model.commit)


def with_embedding(model: Model, token: int, value) -> Model:
  """The model with another embedding of one token; its untied logits stay as they are."""
  table = model.params['token_embedder']['embedding'].at[token].set(value)
  return model.replace(params={**model.params, 'token_embedder': {'embedding': table}})


def poisoned(cache, slots, value):
  """The cache with `value` in some slots (bool [B, K]) of all layers, keys and values."""
  return {**cache, 'self': jax.tree.map(lambda x: jnp.where(slots[:, None, :, None], value, x), cache['self'])}
