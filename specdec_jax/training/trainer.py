"""The training loop: teacher-forced cross-entropy, Orbax checkpoints, exact resume."""

import contextlib
import functools
import json
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
from absl import logging
from etils import epath
from flax import struct

from specdec_jax.checkpoints import orbax
from specdec_jax.checkpoints.storage import first_line
from specdec_jax.errors import CheckpointError, OutputError, RunFailed
from specdec_jax.files import reading
from specdec_jax.models.network import network
from specdec_jax.parallel import partition
from specdec_jax.parallel.mesh import Mesh, place_rows, state_shardings


class TrainState(struct.PyTreeNode):
  """What a resume needs; the batches follow from `step`."""

  step: jax.Array
  params: Any
  optimizer_state: Any


def shift_right(targets, start_id: int):
  """Decoder inputs of teacher forcing: the targets after the start token."""
  return jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=start_id)


def log_probs(config, params, batch, dropout_key=None):
  """Teacher-forced log-probabilities of the targets' places, float32 [B, T, V]; padding rows get none."""
  start = config.eos_id if config.decoder_only else config.decoder_start_id
  fed = shift_right(batch['targets'], start)
  inputs = (fed,) if config.decoder_only else (batch['encoder_tokens'], fed)
  logits: Any = network(config).apply(
      {'params': params}, *inputs, deterministic=dropout_key is None,
      rngs=None if dropout_key is None else {'dropout': dropout_key})
  if config.num_pieces:
    logits = jnp.where(jnp.arange(config.vocab_size) < config.num_pieces, logits, -1e10)
  return jax.nn.log_softmax(logits)


def token_losses(config, params, batch, label_smoothing=0.0, dropout_key=None, teacher=None,
                 divergence='kl'):
  """Summed cross-entropy over real target tokens (nats), and their number.

  With a teacher, a `Model` of the same vocabulary, the labels are its distributions p instead of the
  tokens: word-level distillation. 'kl' is cross-entropy still; 'tvd' is the total variation
  distance 1 - sum(min(p, q)) = D_LK(p, q) [def. 3.2], whose mean is 1 - alpha [cor. 3.6].
  """
  targets = batch['targets']
  ours = log_probs(config, params, batch, dropout_key)
  if teacher is not None:
    labels = jnp.exp(log_probs(teacher.config, teacher.params, batch))[..., :config.vocab_size]
    losses = (1 - jnp.minimum(labels, jnp.exp(ours)).sum(-1) if divergence == 'tvd'
              else -(labels * ours).sum(-1))
  else:
    losses = -jnp.take_along_axis(ours, targets[..., None], -1)[..., 0]
  if label_smoothing:
    pieces = config.num_pieces or config.vocab_size
    losses = (1 - label_smoothing) * losses - label_smoothing * ours[..., :pieces].mean(-1)
  real = jnp.cumsum((targets > 0)[:, ::-1], axis=1)[:, ::-1] > 0  # an id 0 before the end is a token
  return jnp.sum(losses * real), jnp.sum(real)


@functools.partial(jax.jit, donate_argnums=0, static_argnames=(
    'config', 'update', 'label_smoothing', 'divergence', 'mesh', 'microbatches'))
def train_step(state: TrainState, batch, seed, teacher=None, *, config, update, label_smoothing,
               divergence='kl', mesh=None, microbatches=1):
  """One update; returns the new state, mean loss (nats a token) and number of target tokens.

  Of several microbatches, equal parts of the rows, the gradients are added up one by one.
  """
  key = jax.random.fold_in(jax.random.key(seed), state.step)

  def of(batch, key):
    total = lambda params: token_losses(config, params, batch, label_smoothing,
                                        key if config.dropout_rate else None, teacher, divergence)
    return jax.value_and_grad(total, has_aux=True)(state.params)

  if microbatches == 1:
    sums = of(batch, key)
  else:
    add = lambda sums, part: (jax.tree.map(jnp.add, sums, of(*part)), None)
    parts = jax.tree.map(lambda x: x.reshape(-1, microbatches, *x.shape[1:]).swapaxes(0, 1), batch)
    nothing = (jnp.zeros(()), jnp.zeros((), jnp.int32)), jax.tree.map(jnp.zeros_like, state.params)
    sums, _ = jax.lax.scan(add, nothing, (parts, jax.random.split(key, microbatches)))
  (total, count), grads = sums
  loss, grads = jax.tree.map(lambda x: x / jnp.maximum(count, 1), (total, grads))
  updates, optimizer_state = update(grads, state.optimizer_state, state.params)
  params = optax.apply_updates(state.params, updates)
  return _laid_out(TrainState(state.step + 1, params, optimizer_state), config, mesh), loss, count


@functools.partial(jax.jit, static_argnames='config')
def eval_step(params, batch, *, config):
  return token_losses(config, params, batch)


@functools.partial(jax.jit, static_argnames=('config', 'init_optimizer', 'mesh'))
def _initial_state(params, seed, *, config, init_optimizer, mesh) -> TrainState:
  if params is None:
    inputs = [jnp.zeros((1, 1), jnp.int32)] * (1 if config.decoder_only else 2)
    params = network(config).init(jax.random.key(seed), *inputs)['params']
  return _laid_out(TrainState(jnp.zeros((), jnp.int32), params, init_optimizer(params)), config, mesh)


def _laid_out(state, config, mesh):
  """A state that stays in its parts on the mesh."""
  return state if mesh is None else jax.lax.with_sharding_constraint(
      state, state_shardings(state, config, mesh))


def _placed(params, batch):
  """A batch with its rows split as the parameters' mesh has it."""
  return dict(zip(batch, place_rows(params, *batch.values())))


@contextlib.contextmanager
def _checkpoints(directory: str) -> Iterator[ocp.CheckpointManager]:
  """The checkpoints in a directory, of which the two newest are kept."""
  os.makedirs(directory, exist_ok=True)
  reading.check_regular(epath.Path(directory))
  with orbax.plain(epath.Path(os.path.abspath(directory))) as place, ocp.CheckpointManager(
      place, options=ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)) as manager:
    yield manager


def _save(manager: ocp.CheckpointManager, step: int, state: TrainState, directory: str) -> None:
  try:
    manager.save(step, args=ocp.args.StandardSave(state))
  except Exception as e:  # Orbax and TensorStore raise many kinds where a disk is full or read-only
    raise OutputError(f"The checkpoint of step {step} cannot be written to '{directory}' ({first_line(e)}).") from e


def _start(manager, directory, params, seed, config, optimizer, mesh) -> TrainState:
  """The newest checkpoint, or a first state; each device gets its own part and no more."""
  make = functools.partial(_initial_state, config=config, init_optimizer=optimizer.init, mesh=mesh)
  if params is not None and mesh is not None:
    params = jax.device_put(params, state_shardings(params, config, mesh))
  step = manager.latest_step()
  if step is None:
    return make(params, seed)
  shapes = jax.eval_shape(make, params, seed)
  shapes = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
                        shapes, state_shardings(shapes, config, mesh))
  logging.info('Resumed at step %d.', step)
  try:
    return manager.restore(step, args=ocp.args.StandardRestore(shapes))
  except Exception as e:  # Orbax and TensorStore raise many kinds for damage
    raise CheckpointError(f"The checkpoint '{os.path.join(directory, str(step))}' is damaged, or of another model or "
                          f'optimizer; without it training goes on from the one before. ({first_line(e)})') from e


def evaluate(config, params, batches) -> float:
  """Validation loss in nats a token."""
  sums = [eval_step(params, _placed(params, b), config=config) for b in batches.once()]
  total, count = np.sum([[float(x) for x in s] for s in sums], axis=0)
  return total / count


def train(config, train_batches, validation_batches, directory: str, *, steps: int,
          optimizer: optax.GradientTransformation, init_params=None, teacher=None, divergence: str = 'kl',
          seed: int = 0, label_smoothing: float = 0.0, eval_every: int = 500, checkpoint_every: int = 500,
          log_every: int = 50, on_eval: Callable[[int, Any], dict] | None = None, mesh: Mesh | None = None,
          microbatches: int = 1):
  """Trains from the newest checkpoint in `directory`, or from `init_params`, or from scratch.

  With a `teacher` the training loss is that of distillation by `divergence`, see `token_losses`.
  On a `mesh` parameters and what the optimiser keeps of them are split along 'model', the rows
  of a batch along 'data'; a run may go on on another mesh. Of several `microbatches` the
  gradients are added up, see `train_step`.

  Logs to `directory/log.jsonl` a line each log_every and eval_every steps. A run
  that was stopped goes on exactly as if it had not been, from its last checkpoint.

  Returns:
    The parameters (float32) after `steps` steps.
  """
  if teacher is not None and mesh is not None:
    teacher = teacher.replace(params=jax.device_put(
        teacher.params, partition.shardings(teacher, mesh.devices())))
  with _checkpoints(directory) as manager, open(os.path.join(directory, 'log.jsonl'), 'a') as log:
    state = _start(manager, directory, init_params, seed, config, optimizer, mesh)
    start = time.time()
    tokens = 0
    pending = []  # device values, read only when a line is logged

    def record(**fields):
      log.write(json.dumps(fields) + '\n')
      log.flush()
      logging.info('%s', fields)

    first = int(state.step)
    for step, batch in zip(range(first + 1, steps + 1), train_batches.from_step(first)):
      state, loss, count = train_step(state, _placed(state.params, batch), seed, teacher, config=config,
                                      update=optimizer.update, label_smoothing=label_smoothing,
                                      divergence=divergence, mesh=mesh, microbatches=microbatches)
      pending.append((loss, count))
      if step % log_every == 0 or step == steps:
        losses, counts = np.array(jax.device_get(pending)).T
        if not np.all(np.isfinite(losses)):
          raise RunFailed(
              f'The training loss is not finite near step {step}; lower schedule.peak. '
              f'The last good checkpoint in {directory} is kept.')
        tokens += counts.sum()
        record(step=step, loss=float((losses * counts).sum() / counts.sum()),
               epoch=step / train_batches.per_epoch, tokens_per_second=tokens / (time.time() - start))
        pending = []
      if step % eval_every == 0 or step == steps:
        extra = on_eval(step, state.params) if on_eval else {}
        record(step=step, validation_loss=evaluate(config, state.params, validation_batches), **extra)
      if step % checkpoint_every == 0 or step == steps:
        _save(manager, step, state, directory)
  return state.params
