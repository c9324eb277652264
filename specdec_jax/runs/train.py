"""The train run: token pairs to a model directory."""

import dataclasses
import json
import os
from typing import Any

import gin

from specdec_jax import arguments, checks
from specdec_jax.checkpoints.directory import save_model
from specdec_jax.checkpoints.storage import STORAGES
from specdec_jax.data import identity
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import SettingError
from specdec_jax.jobs import claims, fingerprint, output, settings
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.training.batches import BUCKETS, Batches
from specdec_jax.training.bleu import bleu
from specdec_jax.training.losses import ModelLoss
from specdec_jax.training.pairs import concatenate
from specdec_jax.training.trainer import evaluate, train as train_loop


def pairs(name: str, value) -> list:
  """A list of (source ids, target ids)."""
  pairs = list(arguments.iterable(name, value))
  wrong = [i for i, pair in enumerate(pairs) if not isinstance(pair, tuple | list) or len(pair) != 2]
  if wrong:
    raise SettingError(f'{name}[{wrong[0]}] is {checks.shown(pairs[wrong[0]])}; it must be a pair of source ids and '
                       'target ids, such as @read_pairs() makes.')
  return pairs


@arguments.checked(
    config=arguments.instance((T5Config, GPT2Config), '@T5Config() or @GPT2Config()'), vocabulary=settings.VOCABULARY,
    train_pairs=arguments.tuple_of(pairs), validation_pairs=pairs, make_optimizer=arguments.function,
    steps=arguments.at_least(0), init_from=arguments.optional(settings.MODEL),
    teacher=arguments.optional(settings.MODEL),
    divergence=arguments.text_of(('kl', 'tvd')), tokens_per_batch=arguments.at_least(1),
    buckets=arguments.tuple_of(arguments.at_least(1)),
    source_buckets=arguments.tuple_of(arguments.at_least(1), empty=True),
    label_smoothing=arguments.number(lambda x: 0 <= x < 1, 'in [0, 1)'), seed=settings.SEED,
    eval_every=arguments.at_least(1), checkpoint_every=arguments.at_least(1), log_every=arguments.at_least(1),
    bleu_pairs=arguments.at_least(0), max_decode_len=settings.MAX_DECODE_LEN, storage=arguments.text_of(STORAGES),
    mesh=arguments.optional(arguments.instance(Mesh, '@Mesh(), or None')), microbatches=arguments.at_least(1))
def train(output_dir: str, config: T5Config | GPT2Config = gin.REQUIRED,
          vocabulary: Tokenizer = gin.REQUIRED, train_pairs=gin.REQUIRED,
          validation_pairs=gin.REQUIRED, make_optimizer=gin.REQUIRED, steps: int = gin.REQUIRED,
          init_from: Model | None = None, teacher: Model | None = None, divergence: str = 'kl',
          tokens_per_batch: int = 2048, buckets=BUCKETS, source_buckets=(), label_smoothing: float = 0.0,
          seed: int = 0, eval_every: int = 500, checkpoint_every: int = 500, log_every: int = 50,
          bleu_pairs: int = 0, max_decode_len: int = 128, storage: str = 'float32', mesh: Mesh | None = None,
          microbatches: int = 1) -> dict:
  """Trains into `output_dir`/model; a run that was stopped goes on from its last checkpoint.

  Args:
    output_dir: claimed by `launch.main`; checkpoints and log.jsonl lie in it. It belongs to its pairs, vocabulary,
      init_from and teacher: with others it is refused.
    config: the model's sizes; its dropout_rate and dtype hold for training.
    vocabulary: of source and target; a decoder-only model learns its EOS.
    train_pairs: lists of (source ids, target ids), one list a source of them.
    validation_pairs: one such list, for the loss and for BLEU.
    make_optimizer: called with the number of steps, such as @optimizer.
    steps: updates in all.
    init_from: a model whose weights to start from, with a fresh optimiser.
    teacher: a model whose distributions are the labels in place of the target tokens: distillation.
    divergence: from the teacher's distributions: 'kl', or 'tvd', whose mean is 1 - alpha; 'kl' first learns faster.
    tokens_per_batch, buckets, source_buckets: see `training.batches.Batches`.
    label_smoothing: mass moved from the target token to a uniform distribution.
    seed: of the initial weights, the order and dropout.
    eval_every, checkpoint_every, log_every: in steps.
    bleu_pairs: how many validation pairs to translate at each evaluation; 0 for none.
    max_decode_len: of these translations.
    storage: of the weights in `output_dir`/model: float32, bfloat16 or int8.
    mesh: devices to train on; init_from and teacher are best loaded with the same one.
    microbatches: parts of a batch whose gradients are added up, one after another, to save memory.

  Returns:
    The report, also in `output_dir`/report.json.
  """
  if config.decoder_only and bleu_pairs:
    raise SettingError(f'train.bleu_pairs is {bleu_pairs}, but a decoder-only model has no source to translate; '
                       'leave it at 0.')
  eos: dict[str, Any] = {'eos_id': vocabulary.eos_id} if config.decoder_only else {}
  config = dataclasses.replace(config, num_pieces=vocabulary.size, **eos)
  if config.decoder_only and max(buckets) > config.max_positions:
    raise SettingError(f'train.buckets go up to {max(buckets)} tokens, and the model has '
                       f'{config.max_positions} positions (GPT2Config.max_positions); leave longer ones out.')
  if init_from is not None and _sizes(init_from.config) != _sizes(config):
    raise SettingError(f'train.init_from has the sizes {_sizes(init_from.config)}, '
                       f'train.config {_sizes(config)}; they must agree.')
  if teacher is not None and (
      teacher.vocabulary is None or identity.difference(teacher.vocabulary, vocabulary) is not None):
    raise SettingError('train.teacher has another vocabulary than train.vocabulary; distillation needs one for both.')
  if divergence == 'tvd' and (teacher is None or label_smoothing):
    raise SettingError("train.divergence is 'tvd'; use 'kl', or with a train.teacher and no label smoothing 'tvd'.")
  claims.tie_contents(output_dir, {
      'vocabulary': vocabulary.digest, 'training pairs': fingerprint.of_pairs(concatenate(train_pairs)),
      'validation pairs': fingerprint.of_pairs(validation_pairs), 'init_from': fingerprint.of_weights(init_from),
      'teacher': fingerprint.of_weights(teacher)})
  in_batches = lambda pairs: Batches(
      pairs, tokens_per_batch, seed, buckets, source_buckets,
      microbatches * (mesh.data if mesh else 1), config.pad_id)
  batches, validation = in_batches(concatenate(train_pairs)), in_batches(validation_pairs)
  to_translate = validation_pairs[:bleu_pairs]
  as_model = lambda params: Model(params, dataclasses.replace(config, dtype='float32'), vocabulary)

  def on_eval(step, params):
    del step
    return {'bleu': bleu(as_model(params), to_translate, max_decode_len)} if to_translate else {}

  loss = ModelLoss(config, label_smoothing, divergence)
  params = train_loop(
      loss, batches, validation, os.path.join(output_dir, 'checkpoints'), steps=steps, optimizer=make_optimizer(steps),
      init_params=None if init_from is None else init_from.params, teacher=teacher, seed=seed, eval_every=eval_every,
      checkpoint_every=checkpoint_every, log_every=log_every, on_eval=on_eval, mesh=mesh, microbatches=microbatches)
  save_model(as_model(params), os.path.join(output_dir, 'model'), storage=storage, overwrite=True)
  report = {'steps': steps, 'epochs': steps / batches.per_epoch, 'left_out': batches.left_out,
            'validation_loss': evaluate(loss, params, validation)}
  output.write_json(output_dir, 'report.json', report)
  print(json.dumps(report))
  return report


def _sizes(config) -> dict:
  skipped = ('dtype', 'dropout_rate', 'num_pieces', 'eos_id')
  return {k: v for k, v in dataclasses.asdict(config).items() if k not in skipped}
