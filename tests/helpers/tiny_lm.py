"""A tiny random decoder-only pair with a vocabulary of its own."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny_pair import SENTENCES

from specdec_jax.data.tokenizers_fitting import fit_tokenizer
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config
from specdec_jax.models.gpt2 import GPT2


def vocabulary(folder, kind='bpe', size=340) -> TokenizersVocabulary:
  path = folder / f'{kind}-{size}.json'
  path.write_text(fit_tokenizer(SENTENCES, size, kind).to_str())
  return TokenizersVocabulary(path)


def random_lm(seed: int, vocabulary, **changes) -> Model:
  """Weights widened, so that every token depends on all before it."""
  cfg = GPT2Config(**{'vocab_size': 344, 'num_pieces': vocabulary.size, 'eos_id': vocabulary.eos_id,
                      'emb_dim': 16, 'num_heads': 2, 'num_layers': 1, 'max_positions': 32, **changes})
  shapes = jax.eval_shape(GPT2(cfg).init, jax.random.key(0), jnp.zeros((1, 2), jnp.int32))['params']
  rng = np.random.default_rng(seed)
  widen = lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) * 0.5, jnp.float32)
  return Model(jax.tree.map(widen, shapes), cfg, vocabulary)
