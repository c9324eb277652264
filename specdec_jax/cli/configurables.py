"""The names that a gin file may use; importing this module registers them.

A configuration can add its own with gin's `import my.module`.
"""

from specdec_jax import logits_processors
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.ngram_tables import load_ngram
from specdec_jax.cli import gin_config, launch
from specdec_jax.data import examples, tasks
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.drafters.lookup import LookupDrafter
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.drafters.random import RandomDrafter
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.parallel.hosts import Hosts
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.runs import (
  alphas,
  beam,
  check,
  compare,
  complete,
  decode,
  figures,
  fit_ngram,
  fit_vocabulary,
  plan as plan_run,
  precompile,
  train,
)
from specdec_jax.sampling import Sampling
from specdec_jax.training import optimizer, pairs

for _configurable in (
    launch.main, decode.decode, compare.compare, alphas.alphas, beam.beam, train.train, fit_ngram.fit_ngram,
    fit_vocabulary.fit_vocabulary, check.check, complete.complete, figures.figures, plan_run.plan,
    load_model, examples.read_examples, tasks.task_examples, Mesh, Hosts,
    Sampling, ModelDrafter, load_ngram, LookupDrafter, RandomDrafter, T5Config, GPT2Config, Vocabulary,
    TokenizersVocabulary, pairs.read_pairs, pairs.text_pairs, pairs.read_predictions, pairs.task_pairs,
    optimizer.optimizer, optimizer.schedule, optimizer.adamw, optimizer.adafactor,
    logits_processors.RepetitionPenalty, logits_processors.MinimumLength,
    logits_processors.ForbiddenTokens):
  gin_config.register(_configurable)
gin_config.register(precompile.precompile, needs=('decode',))
