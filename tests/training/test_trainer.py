"""The training loop learns, resumes exactly, and stops at a loss that is not finite."""

import dataclasses
import functools
import json
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from specdec_jax.errors import CheckpointError, OutputError, RunFailed
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.network import network
from specdec_jax.models.t5 import T5
from specdec_jax.training import losses, optimizer as optimizer_lib, trainer
from specdec_jax.training.batches import Batches
from specdec_jax.training.losses import ModelLoss

CONFIG = T5Config(vocab_size=32, num_pieces=30, emb_dim=16, num_heads=2, head_dim=8, mlp_dim=32,
                  num_encoder_layers=1, num_decoder_layers=1, dropout_rate=0.1)

log_probs = jax.jit(losses.log_probs, static_argnums=0)
token_losses = jax.jit(losses.token_losses, static_argnums=0, static_argnames=('label_smoothing', 'divergence'))


@functools.cache
def initial(seed):
  token = jnp.zeros((1, 1), jnp.int32)
  return jax.jit(T5(CONFIG).init)(jax.random.key(seed), token, token)['params']


def copy_task(count=64):
  rng = np.random.default_rng(0)
  rows = [rng.integers(3, 30, rng.integers(2, 7)).tolist() + [1] for _ in range(count)]
  return Batches([(r, r) for r in rows], tokens_per_batch=128, buckets=(8,))


ADAM = optax.adam(3e-3)  # one, so that an update is compiled once


def train(directory, steps, total=None, optimizer=ADAM, **settings):
  return trainer.train(ModelLoss(CONFIG), copy_task(), copy_task(), str(directory), steps=steps, optimizer=optimizer,
                       eval_every=settings.pop('eval_every', 1000), checkpoint_every=5, log_every=2,
                       **settings)


def logged(directory, field):
  with open(directory / 'log.jsonl') as f:
    return [record[field] for record in map(json.loads, f) if field in record]


def test_loss_falls(tmp_path):
  train(tmp_path, 60, eval_every=20)
  found = logged(tmp_path, 'validation_loss')
  assert found[-1] < found[0] - 0.1


def test_a_stopped_run_goes_on_as_if_it_had_not(tmp_path):
  whole = train(tmp_path / 'whole', 10)
  train(tmp_path / 'stopped', 5)
  resumed = train(tmp_path / 'stopped', 10)
  assert [step for step in logged(tmp_path / 'stopped', 'step') if step > 5] == [6, 8, 10, 10]  # 10: both losses
  assert logged(tmp_path / 'stopped', 'step').count(4) == 1  # it did not begin again
  jax.tree.map(np.testing.assert_array_equal, whole, resumed)


@pytest.mark.parametrize('name', ['[1]', '*', '?x'])
def test_names_with_special_characters(tmp_path, name):
  folder = tmp_path / name / name
  first = train(folder, 1)
  jax.tree.map(np.testing.assert_array_equal, first, train(folder, 1))
  assert logged(folder, 'loss') == logged(folder, 'loss')[:1]


def test_a_checkpoint_that_is_damaged_is_named(tmp_path):
  train(tmp_path, 1)
  place = tmp_path / '1' / 'default'
  os.mkfifo(place / 'checkpoint')
  with pytest.raises(CheckpointError, match="default/checkpoint' is a pipe, not a file"):
    train(tmp_path, 2)
  (place / 'checkpoint').unlink()
  for file in place.rglob('d/*'):
    file.write_bytes(file.read_bytes()[:10])
  with pytest.raises(CheckpointError, match=f"The checkpoint '{tmp_path}/1' is damaged, or of another model"):
    train(tmp_path, 2)


def test_a_checkpoint_that_cannot_be_written_is_named(tmp_path, monkeypatch):
  def refuse(*_, **__):
    raise OSError(28, 'No space left on device')
  monkeypatch.setattr(trainer.ocp.CheckpointManager, 'save', refuse)
  with pytest.raises(OutputError, match=f"of step 1 cannot be written to '{tmp_path}' .*No space left"):
    train(tmp_path, 1)


def test_starts_from_given_weights(tmp_path):
  given = train(tmp_path / 'first', 5)
  again = train(tmp_path / 'second', 0, init_params=given)
  jax.tree.map(np.testing.assert_array_equal, given, again)


def test_a_loss_that_is_not_finite_stops_the_run(tmp_path):
  bad = optax.chain(optax.adam(1e-3), optax.scale(float('inf')))
  with pytest.raises(RunFailed, match='lower schedule.peak'):
    train(tmp_path, 4, optimizer=bad)


def test_microbatches_add_up_to_the_batch():
  config = dataclasses.replace(CONFIG, dropout_rate=0.0)
  batch = next(copy_task().from_step(0))
  adam = optax.adam(3e-3)

  def step(microbatches):
    state = trainer._initial_state(None, 0, loss=ModelLoss(config, 0.1), init_optimizer=adam.init, mesh=None)
    return trainer.train_step(state, batch, 0, loss=ModelLoss(config, 0.1), update=adam.update,
                              microbatches=microbatches)

  (whole, loss, count), (parts, *found) = step(1), step(4)
  np.testing.assert_allclose(found, [loss, count], rtol=1e-5)
  jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), whole.params, parts.params)


def test_token_losses_are_cross_entropy_over_real_tokens():
  batch = next(copy_task().from_step(0))
  params = initial(0)
  total, count = token_losses(CONFIG, params, batch)
  targets = batch['targets']
  inputs = np.concatenate([np.zeros((len(targets), 1), int), targets[:, :-1]], 1)
  logits = np.array(jax.jit(T5(CONFIG).apply)({'params': params}, batch['encoder_tokens'], inputs))
  logits = logits[..., :30].astype(np.float64)
  log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  expected = -np.take_along_axis(log_probs, np.maximum(targets, 1)[..., None], -1)[..., 0]
  np.testing.assert_allclose(total, expected[targets > 0].sum(), rtol=1e-5)
  assert count == (targets > 0).sum()
  smoothed, _ = token_losses(CONFIG, params, batch, label_smoothing=0.3)
  uniform = -log_probs.mean(-1)[targets > 0].sum()
  np.testing.assert_allclose(smoothed, 0.7 * total + 0.3 * uniform, rtol=1e-5)


def test_schedule_warms_up_holds_and_decays():
  at = optimizer_lib.schedule(100, peak=1.0, warmup_steps=10, decay_steps=20)
  np.testing.assert_allclose([at(s) for s in (0, 5, 10, 50, 80, 90, 100)],
                             [0, 0.5, 1, 1, 1, 0.5, 0], atol=1e-6)


@pytest.mark.parametrize('make', [optimizer_lib.adamw, optimizer_lib.adafactor])
def test_optimizers_descend(make):
  params = {'kernel': jnp.ones((4, 4))}
  optimizer = optimizer_lib.optimizer(20, make=make)
  state = optimizer.init(params)
  loss = lambda p: jnp.sum(p['kernel'] ** 2)
  before = loss(params)
  for _ in range(20):
    updates, state = optimizer.update(jax.grad(loss)(params), state, params)
    params = optax.apply_updates(params, updates)
  assert loss(params) < before


def test_a_teachers_distributions_are_the_labels():
  batch = next(copy_task().from_step(0))
  student, teacher = initial(0), Model(initial(1), CONFIG)
  ours, labels = (np.asarray(log_probs(CONFIG, p, batch), np.float64)
                  for p in (student, teacher.params))
  expected = -(np.exp(labels) * ours).sum(-1)[batch['targets'] > 0].sum()
  total, _ = token_losses(CONFIG, student, batch, teacher=teacher)
  np.testing.assert_allclose(total, expected, rtol=1e-5)
  loss = lambda params: token_losses(CONFIG, params, batch, teacher=teacher)[0]
  flat = jax.tree.leaves(jax.grad(loss)(teacher.params))  # the teacher itself has nothing to learn
  assert max(float(jnp.abs(x).max()) for x in flat) < 1e-3


def test_the_loss_tvd_is_1_minus_alpha():
  batch = next(copy_task().from_step(0))
  student, teacher = (initial(seed) for seed in (0, 1))
  q, p = (np.exp(np.asarray(log_probs(CONFIG, params, batch), np.float64))
          for params in (student, teacher))
  beta = np.minimum(p, q).sum(-1)[batch['targets'] > 0]
  total, count = token_losses(CONFIG, student, batch, teacher=Model(teacher, CONFIG), divergence='tvd')
  np.testing.assert_allclose(total / count, 1 - beta.mean(), rtol=1e-4)
  itself, _ = token_losses(CONFIG, teacher, batch, teacher=Model(teacher, CONFIG), divergence='tvd')
  np.testing.assert_allclose(itself, 0, atol=1e-3)


@pytest.mark.long
def test_distilling_by_tvd_raises_alpha(tmp_path):
  teacher = Model(jax.tree.map(lambda x: 3 * x, initial(1)), CONFIG)
  batch = next(copy_task().from_step(0))
  def alpha(params):
    total, count = token_losses(CONFIG, params, batch, teacher=teacher, divergence='tvd')
    return 1 - total / count
  train = lambda steps, where, divergence: trainer.train(
      ModelLoss(CONFIG, divergence=divergence), copy_task(), copy_task(), str(tmp_path / where), steps=steps,
      optimizer=optax.adam(1e-2), teacher=teacher, eval_every=100, checkpoint_every=100, log_every=20)
  assert alpha(train(30, 'tvd', 'tvd')) > alpha(train(1, 'start', 'kl')) + 0.02


def test_a_decoder_only_model_learns(tmp_path):
  config = GPT2Config(vocab_size=32, num_pieces=30, emb_dim=16, num_heads=2, num_layers=1, eos_id=1)
  trainer.train(ModelLoss(config), copy_task(), copy_task(), str(tmp_path), steps=40, optimizer=optax.adam(1e-2),
                eval_every=20, checkpoint_every=100, log_every=20)
  found = logged(tmp_path, 'validation_loss')
  assert found[-1] < found[0] - 0.05


def test_an_id_0_before_the_end_of_a_text_is_learnt_and_padding_is_not():
  config = GPT2Config(vocab_size=32, emb_dim=16, num_heads=2, num_layers=1, eos_id=1)
  params = jax.jit(network(config).init)(jax.random.key(0), jnp.zeros((1, 1), jnp.int32))['params']
  of = lambda row: token_losses(config, params, {'targets': jnp.array([row])})
  total, count = of([0, 5, 0, 1, 0, 0])
  assert count == 4 and total == pytest.approx(float(of([0, 5, 0, 1])[0]))
  assert total > of([0, 5])[0] + 1
