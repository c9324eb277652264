"""The train_heads run: heads on a frozen target, from the texts that it says itself."""

import dataclasses
import json
import os

import gin

from specdec_jax import arguments
from specdec_jax.checkpoints.heads import save_heads
from specdec_jax.checkpoints.storage import STORAGES
from specdec_jax.drafters.heads import KINDS, HeadsDrafter, heads_for
from specdec_jax.errors import SettingError
from specdec_jax.jobs import claims, fingerprint, output, settings
from specdec_jax.model import Model
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.runs.train import pairs
from specdec_jax.training.batches import BUCKETS, Batches
from specdec_jax.training.heads import HeadsLoss
from specdec_jax.training.pairs import concatenate
from specdec_jax.training.trainer import evaluate, train as train_loop


@arguments.checked(
    config=arguments.instance(HeadsConfig, '@HeadsConfig()'), target=settings.MODEL,
    train_pairs=arguments.tuple_of(pairs), validation_pairs=pairs, make_optimizer=arguments.function,
    steps=arguments.at_least(0), init_from=arguments.optional(arguments.instance(HeadsDrafter, '@load_heads()')),
    divergence=arguments.text_of(('kl', 'tvd')), unroll=arguments.at_least(1), tokens_per_batch=arguments.at_least(1),
    buckets=arguments.tuple_of(arguments.at_least(1)),
    source_buckets=arguments.tuple_of(arguments.at_least(1), empty=True), seed=settings.SEED,
    eval_every=arguments.at_least(1), checkpoint_every=arguments.at_least(1), log_every=arguments.at_least(1),
    storage=arguments.text_of(STORAGES), mesh=arguments.optional(arguments.instance(Mesh, '@Mesh(), or None')),
    microbatches=arguments.at_least(1))
def train_heads(output_dir: str, config: HeadsConfig = gin.REQUIRED, target: Model = gin.REQUIRED,
                train_pairs=gin.REQUIRED, validation_pairs=gin.REQUIRED, make_optimizer=gin.REQUIRED,
                steps: int = gin.REQUIRED, init_from: HeadsDrafter | None = None, divergence: str = 'kl',
                unroll: int = 2, tokens_per_batch: int = 2048, buckets=BUCKETS, source_buckets=(), seed: int = 0,
                eval_every: int = 500, checkpoint_every: int = 500, log_every: int = 50, storage: str = 'float32',
                mesh: Mesh | None = None, microbatches: int = 1) -> dict:
  """Trains into `output_dir`/heads; a run that was stopped goes on from its last checkpoint.

  Args:
    output_dir: claimed by `launch.main`; checkpoints and log.jsonl lie in it. It belongs to its pairs, target and
      init_from: with others it is refused.
    config: kind and sizes of the heads; what of them is the target's is filled in.
    target: stays as it is; the labels are its distributions.
    train_pairs, validation_pairs: as of `train`; best the target's own texts (@read_predictions).
    make_optimizer, steps, tokens_per_batch, buckets, source_buckets, seed, eval_every, checkpoint_every, log_every,
      storage, mesh, microbatches: as of `train`.
    init_from: heads to go on from, with a fresh optimiser.
    divergence: 'kl', or 'tvd', whose mean is 1 - alpha; 'kl' first learns faster.
    unroll: of a layer, the tokens of a draft that it is trained for, see `training.heads.HeadsLoss`.

  Returns:
    The report, also in `output_dir`/report.json: validation_loss is 1 - alpha of a draft's first token over the
    validation pairs, at temperature 1.
  """
  config = heads_for(config, target)
  if init_from is not None and dataclasses.replace(init_from.config, dtype=config.dtype) != config:
    raise SettingError(f'train_heads.init_from are {init_from.name} of other sizes than train_heads.config; they must '
                       'agree.')
  claims.tie_contents(output_dir, {
      'training pairs': fingerprint.of_pairs(concatenate(train_pairs)),
      'validation pairs': fingerprint.of_pairs(validation_pairs), 'target': fingerprint.of_weights(target),
      'init_from': fingerprint.of_weights(init_from)})
  batches, validation = (Batches(some, tokens_per_batch, seed, buckets, source_buckets,
                                 microbatches * (mesh.data if mesh else 1), getattr(target.config, 'pad_id', 0))
                         for some in (concatenate(train_pairs), validation_pairs))
  loss = HeadsLoss(config, divergence, unroll)
  params = train_loop(
      loss, batches, validation, os.path.join(output_dir, 'checkpoints'), steps=steps, optimizer=make_optimizer(steps),
      init_params=None if init_from is None else init_from.params, teacher=target, seed=seed, eval_every=eval_every,
      checkpoint_every=checkpoint_every, log_every=log_every, mesh=mesh, microbatches=microbatches)
  written = KINDS[config.kind](params, dataclasses.replace(config, dtype='float32'))
  save_heads(written, os.path.join(output_dir, 'heads'), storage=storage, overwrite=True)
  report = {'steps': steps, 'epochs': steps / batches.per_epoch, 'left_out': batches.left_out,
            'validation_loss': evaluate(loss, params, validation, target)}
  output.write_json(output_dir, 'report.json', report)
  print(json.dumps(report))
  return report
