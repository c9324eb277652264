"""Drafts that disagree with everyone: what a broken draft does to the speed, and to nothing else."""

import jax
import jax.numpy as jnp
import numpy as np

from specdec_jax.model import Model


def random_weights(model: Model, seed: int = 0) -> Model:
  """The same sizes and scales without what was learnt: each array's numbers in random places."""
  rng = np.random.default_rng(seed)
  mix = lambda x: jnp.asarray(rng.permutation(np.asarray(x).ravel()).reshape(x.shape))
  return model.replace(params=jax.tree.map(mix, model.params))


def shuffled_rows(model: Model, seed: int = 0) -> Model:
  """The embedding's rows in random order: it reads, and with tied logits says, another token for each."""
  params = dict(model.params)
  rows = np.asarray(params['token_embedder']['embedding'])
  order = np.append(np.random.default_rng(seed).permutation(model.num_tokens),
                    np.arange(model.num_tokens, len(rows)))
  params['token_embedder'] = {'embedding': jnp.asarray(rows[order])}
  return model.replace(params=params)
