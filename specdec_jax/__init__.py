"""Exact speculative decoding for T5 in JAX [Leviathan et al., arXiv 2211.17192].

Names are imported when they are first used, so that `import specdec_jax` is quick.
"""

import importlib

from specdec_jax import lazy

__version__ = '0.1.0'

_HOMES = {
    'T5Config': 'specdec_jax.models.config',
    'GPT2Config': 'specdec_jax.models.config',
    'Model': 'specdec_jax.model',
    'Vocabulary': 'specdec_jax.data.vocabulary',
    'TokenizersVocabulary': 'specdec_jax.data.tokenizers_vocabulary',
    'ByteVocabulary': 'specdec_jax.data.byte_vocabulary',
    'load_model': 'specdec_jax.checkpoints.directory',
    'save_model': 'specdec_jax.checkpoints.directory',
    'load_heads': 'specdec_jax.checkpoints.heads',
    'save_heads': 'specdec_jax.checkpoints.heads',
    'load_ngram': 'specdec_jax.checkpoints.ngram_tables',
    'save_ngram': 'specdec_jax.checkpoints.ngram_tables',
    'Mesh': 'specdec_jax.parallel.mesh',
    'Sampling': 'specdec_jax.sampling',
    'Status': 'specdec_jax.results',
    'Tree': 'specdec_jax.tree',
    'Drafter': 'specdec_jax.drafters.interface',
    'ModelDrafter': 'specdec_jax.drafters.model',
    'HeadsConfig': 'specdec_jax.models.heads',
    'ParallelHeadsDrafter': 'specdec_jax.drafters.heads',
    'LayerDrafter': 'specdec_jax.drafters.heads',
    'NGramDrafter': 'specdec_jax.drafters.ngram',
    'LookupDrafter': 'specdec_jax.drafters.lookup',
    'RandomDrafter': 'specdec_jax.drafters.random',
    'ParallelDrafter': 'specdec_jax.drafters.parallel',
    'speculative_decode': 'specdec_jax.decoding',
    'autoregressive_decode': 'specdec_jax.decoding',
    'stream': 'specdec_jax.streaming',
    'beam_search': 'specdec_jax.beam.search',
    'score': 'specdec_jax.scoring',
    'verify': 'specdec_jax.rule',
    'alpha': 'specdec_jax.analysis.alpha',
    'theory': 'specdec_jax.analysis',
    'logits_processors': 'specdec_jax',
    'tpu': 'specdec_jax',
}

__all__ = list(_HOMES)


def __getattr__(name):
  if name not in _HOMES:
    return lazy.attribute(__name__, name)
  home = _HOMES[name]
  if name in ('theory', 'logits_processors', 'tpu'):
    return importlib.import_module(f'{home}.{name}')
  value = getattr(importlib.import_module(home), name)
  globals()[name] = value
  return value


def __dir__():
  return lazy.names(__name__)
