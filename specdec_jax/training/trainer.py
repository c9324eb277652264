"""The training loop: updates, Orbax checkpoints, exact resume. A loss says what is trained, and for what (`losses`)."""

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
from specdec_jax.parallel import partition
from specdec_jax.parallel.mesh import Mesh, place_rows


class TrainState(struct.PyTreeNode):
  """What a resume needs; the batches follow from `step`."""

  step: jax.Array
  params: Any
  optimizer_state: Any


@functools.partial(jax.jit, donate_argnums=0, static_argnames=(
    'loss', 'update', 'mesh', 'microbatches'))
def train_step(state: TrainState, batch, seed, teacher=None, *, loss, update, mesh=None, microbatches=1):
  """One update; returns the new state, mean loss a token and number of target tokens.

  Of several microbatches, equal parts of the rows, the gradients are added up one by one.
  """
  key = jax.random.fold_in(jax.random.key(seed), state.step)

  def of(batch, key):
    total = lambda params: loss(params, batch, key if loss.dropout_rate else None, teacher)
    return jax.value_and_grad(total, has_aux=True)(state.params)

  if microbatches == 1:
    sums = of(batch, key)
  else:
    add = lambda sums, part: (jax.tree.map(jnp.add, sums, of(*part)), None)
    parts = jax.tree.map(lambda x: x.reshape(-1, microbatches, *x.shape[1:]).swapaxes(0, 1), batch)
    nothing = (jnp.zeros(()), jnp.zeros((), jnp.int32)), jax.tree.map(jnp.zeros_like, state.params)
    sums, _ = jax.lax.scan(add, nothing, (parts, jax.random.split(key, microbatches)))
  (total, count), grads = sums
  mean, grads = jax.tree.map(lambda x: x / jnp.maximum(count, 1), (total, grads))
  updates, optimizer_state = update(grads, state.optimizer_state, state.params)
  params = optax.apply_updates(state.params, updates)
  return _laid_out(TrainState(state.step + 1, params, optimizer_state), loss, mesh), mean, count


@functools.partial(jax.jit, static_argnames='loss')
def eval_step(params, batch, teacher, *, loss):
  return loss.validation(params, batch, teacher)


@functools.partial(jax.jit, static_argnames=('loss', 'init_optimizer', 'mesh'))
def _initial_state(params, seed, *, loss, init_optimizer, mesh) -> TrainState:
  params = loss.initial(seed) if params is None else params
  return _laid_out(TrainState(jnp.zeros((), jnp.int32), params, init_optimizer(params)), loss, mesh)


def _laid_out(state, loss, mesh):
  """A state that stays in its parts on the mesh."""
  return state if mesh is None else jax.lax.with_sharding_constraint(state, loss.shardings(state, mesh))


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


def _start(manager, directory, params, seed, loss, optimizer, mesh) -> TrainState:
  """The newest checkpoint, or a first state; each device gets its own part and no more."""
  make = functools.partial(_initial_state, loss=loss, init_optimizer=optimizer.init, mesh=mesh)
  if params is not None and mesh is not None:
    params = jax.device_put(params, loss.shardings(params, mesh))
  step = manager.latest_step()
  if step is None:
    return make(params, seed)
  shapes = jax.eval_shape(make, params, seed)
  shapes = jax.tree.map(lambda x, place: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=place),
                        shapes, loss.shardings(shapes, mesh))
  logging.info('Resumed at step %d.', step)
  try:
    return manager.restore(step, args=ocp.args.StandardRestore(shapes))
  except Exception as e:  # Orbax and TensorStore raise many kinds for damage
    raise CheckpointError(f"The checkpoint '{os.path.join(directory, str(step))}' is damaged, or of another model or "
                          f'optimizer; without it training goes on from the one before. ({first_line(e)})') from e


def evaluate(loss, params, batches, teacher=None) -> float:
  """Validation loss a token, see the loss's `validation`."""
  sums = [eval_step(params, _placed(params, b), teacher, loss=loss) for b in batches.once()]
  total, count = np.sum([[float(x) for x in s] for s in sums], axis=0)
  return total / count


def train(loss, train_batches, validation_batches, directory: str, *, steps: int,
          optimizer: optax.GradientTransformation, init_params=None, teacher=None, seed: int = 0,
          eval_every: int = 500, checkpoint_every: int = 500, log_every: int = 50,
          on_eval: Callable[[int, Any], dict] | None = None, mesh: Mesh | None = None, microbatches: int = 1):
  """Trains from the newest checkpoint in `directory`, or from `init_params`, or from scratch.

  What is trained are the parameters of `loss`, such as `losses.ModelLoss`; with a `teacher` by its distributions.
  On a `mesh` parameters and what the optimiser keeps of them are split along 'model', the rows of a batch along
  'data'; a run may go on on another mesh. Of several `microbatches` the gradients are added up, see `train_step`.

  Logs to `directory/log.jsonl` a line each log_every and eval_every steps. A run
  that was stopped goes on exactly as if it had not been, from its last checkpoint.

  Returns:
    The parameters (float32) after `steps` steps.
  """
  if teacher is not None and mesh is not None:
    teacher = teacher.replace(params=jax.device_put(
        teacher.params, partition.shardings(teacher, mesh.devices())))
  with _checkpoints(directory) as manager, open(os.path.join(directory, 'log.jsonl'), 'a') as log:
    state = _start(manager, directory, init_params, seed, loss, optimizer, mesh)
    start = time.time()
    tokens = 0
    pending = []  # device values, read only when a line is logged

    def record(**fields):
      log.write(json.dumps(fields) + '\n')
      log.flush()
      logging.info('%s', fields)

    first = int(state.step)
    for step, batch in zip(range(first + 1, steps + 1), train_batches.from_step(first)):
      state, mean, count = train_step(state, _placed(state.params, batch), seed, teacher, loss=loss,
                                      update=optimizer.update, mesh=mesh, microbatches=microbatches)
      pending.append((mean, count))
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
        record(step=step, validation_loss=evaluate(loss, state.params, validation_batches, teacher), **extra)
      if step % checkpoint_every == 0 or step == steps:
        _save(manager, step, state, directory)
  return state.params
