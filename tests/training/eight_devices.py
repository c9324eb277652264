"""Trains a tiny T5 on one device and on meshes of eight virtual ones; see virtual_devices.py.

  python eight_devices.py DIRECTORY NAME...   writes DIRECTORY/NAME/log.jsonl for each of NAMEs, such as 4x2,
                                              adafactor_4x2 or heads_4x2; without a NAME those of
                                              everything(), and facts.json
"""

import json
import sys

import jax
import numpy as np
import tiny

from specdec_jax.checkpoints.directory import load_model, save_model
from specdec_jax.model import Model
from specdec_jax.models.heads import HeadsConfig
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.training import optimizer as optimizer_lib, trainer
from specdec_jax.training.batches import Batches
from specdec_jax.training.heads import HeadsLoss
from specdec_jax.training.losses import ModelLoss

CONFIG = tiny.config(num_heads=8, head_dim=4, dropout_rate=0.1)
MODEL = ModelLoss(CONFIG)
HEADS = HeadsLoss(HeadsConfig(kind='layer', hidden_dim=16, vocab_size=CONFIG.vocab_size, width=8, num_heads=2,
                              head_dim=4, mlp_dim=8, encoded=True))
STEPS = 4
RUNS = {'one': None, '2x4': Mesh(data=2, model=4), '4x2': Mesh(data=4, model=2), '8x1': Mesh(data=8)}
adam = optimizer_lib.optimizer(STEPS, lambda rate: optimizer_lib.adamw(rate, weight_decay=0.1))
ADAFACTOR = dict(microbatches=2, optimizer=optimizer_lib.optimizer(
    STEPS, lambda rate: optimizer_lib.adafactor(rate, min_dim_size_to_factor=8)))


def train(directory, mesh, steps=STEPS, optimizer=adam, loss=MODEL, **more):
  rng = np.random.default_rng(0)
  rows = [rng.integers(3, 20, rng.integers(2, 7)).tolist() + [1] for _ in range(40)]
  batches = Batches([(r, r[::-1][1:] + [1]) for r in rows], tokens_per_batch=128, buckets=(8,),
                    rows_multiple=8)
  return trainer.train(loss, batches, batches, directory, steps=steps, optimizer=optimizer, log_every=1,
                       eval_every=2, checkpoint_every=2, mesh=mesh, **more)


def target(folder, mesh):
  """Whose heads are trained, on a mesh."""
  save_model(tiny.random_t5(0, num_heads=8, head_dim=4), f'{folder}/target', overwrite=True)
  return load_model(f'{folder}/target', mesh=mesh)


def held(tree):
  """Shape that the last device holds of a kernel that is split, wherever it stands in the tree."""
  return [x.addressable_shards[-1].data.shape
          for path, x in jax.tree_util.tree_leaves_with_path(tree)
          if "['decoder']['layers_0']['mlp']['wo']['kernel']" in jax.tree_util.keystr(path)]


def same(a, b) -> bool:
  return all(jax.tree.leaves(jax.tree.map(lambda x, y: bool((np.asarray(x) == np.asarray(y)).all()), a, b)))


def everything(folder) -> dict:
  """Trains on one device and on 2x4, in every way there is; what was found."""
  trained = {name: train(f'{folder}/{name}', RUNS[name]) for name in ('one', '2x4')}
  mesh, facts = RUNS['2x4'], {}
  save_model(Model(trained['2x4'], CONFIG), f'{folder}/model')
  facts['saved'] = same(load_model(f'{folder}/model').params, trained['2x4'])
  train(f'{folder}/stopped', mesh, steps=2)
  facts['resumed'] = same(train(f'{folder}/stopped', mesh), trained['2x4'])
  manager = trainer.ocp.CheckpointManager(f'{folder}/2x4')
  read = lambda params: trainer._start(manager, folder, params, 0, ModelLoss(CONFIG), adam, mesh)
  facts['held'] = held(read(None))
  facts['taken up'] = held(train(f'{folder}/from', mesh, steps=0, init_params=jax.device_get(trained['one'])))
  train(f'{folder}/one', mesh, steps=STEPS + 2)  # from one device's checkpoint
  try:
    train(f'{folder}/refused', Mesh(model=3))
  except ValueError as e:
    facts['refused'] = str(e)
  return facts


if __name__ == '__main__':
  folder, *names = sys.argv[1:]
  for name in names:
    *kind, shape = name.split('_')
    mesh = RUNS[shape]
    more = (ADAFACTOR if kind == ['adafactor'] else
            {'loss': HEADS, 'teacher': target(folder, mesh)} if kind == ['heads'] else {})
    train(f'{folder}/{name}', mesh, **more)
  facts = {} if names else everything(folder)
  with open(f'{folder}/facts.json', 'w', encoding='utf-8') as f:
    json.dump(facts, f)
