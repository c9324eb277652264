"""The names that a gin file may use; importing this module registers them.

A configuration can add its own with gin's `import my.module`.
"""

from collections.abc import Callable
from typing import Any, cast

from specdec_jax import logits_processors
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.checkpoints.heads import load_heads
from specdec_jax.checkpoints.ngram_tables import load_ngram
from specdec_jax.cli import bindings, launch
from specdec_jax.data import examples, tasks
from specdec_jax.data.byte_vocabulary import ByteVocabulary
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.drafters.lookup import LookupDrafter
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.drafters.random import RandomDrafter
from specdec_jax.jobs import trees
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.models.known import CONFIGURABLES as CONFIGS
from specdec_jax.parallel.hosts import Hosts
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.runs import registry
from specdec_jax.sampling import Sampling
from specdec_jax.training import optimizer, pairs
from specdec_jax.tree import Tree

for _light in (
    Sampling, Tree, trees.full_tree, trees.spine_tree, trees.best_tree, Mesh, Hosts, ModelDrafter, LookupDrafter,
    RandomDrafter, HeadsConfig, *CONFIGS.values(),
    logits_processors.RepetitionPenalty, logits_processors.MinimumLength, logits_processors.ForbiddenTokens):
  bindings.register(cast(Callable[..., Any], _light), light=True)

for _loads in (
    launch.main, load_model, load_heads, load_ngram, examples.read_examples, tasks.task_examples, Vocabulary,
    TokenizersVocabulary, ByteVocabulary, pairs.read_pairs, pairs.text_pairs, pairs.read_predictions, pairs.task_pairs,
    optimizer.optimizer, optimizer.schedule, optimizer.adamw, optimizer.adafactor):
  bindings.register(_loads)

for _run in registry.RUNS.values():
  bindings.register(_run.function, needs=_run.needs)
