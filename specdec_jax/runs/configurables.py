"""The names that a gin file may use; importing this module registers them.

A configuration can add its own with gin's `import my.module`.
"""

import gin

from specdec_jax import logits_processors
from specdec_jax.checkpoints.directory import load_model
from specdec_jax.data import examples
from specdec_jax.data import tasks
from specdec_jax.drafters.model import ModelDrafter
from specdec_jax.runs import compare
from specdec_jax.runs import decode
from specdec_jax.runs import launch
from specdec_jax.sampling import Sampling

for _configurable in (
    launch.main, decode.decode, compare.compare,
    load_model, examples.read_examples, tasks.task_examples,
    Sampling, ModelDrafter,
    logits_processors.RepetitionPenalty, logits_processors.MinimumLength,
    logits_processors.ForbiddenTokens):
  gin.external_configurable(_configurable)
