import json

import numpy as np
import pytest
import tiny

from specdec_jax.checkpoints.directory import load_model
from specdec_jax.errors import OutputError
from specdec_jax.jobs.claims import claimed
from specdec_jax.models.config import GPT2Config
from specdec_jax.parallel.mesh import Mesh
from specdec_jax.runs import train as train_lib
from specdec_jax.training import optimizer as optimizer_lib

TEXTS = ('ein Haus', 'am See', 'noch ein Haus am Meer', 'und')


@pytest.fixture
def run(tmp_path):
  """`train` for two steps on a few pairs."""
  vocabulary = tiny.vocabulary(tmp_path)
  ids = [vocabulary.encode(text) + [vocabulary.eos_id] for text in TEXTS]
  pairs = list(zip(ids, ids[::-1]))

  def train(**settings):
    with claimed(str(tmp_path / 'out'), {}) as directory:
      return train_lib.train(
          directory, **{**dict(
              config=tiny.config(num_pieces=0), vocabulary=vocabulary, train_pairs=[pairs], validation_pairs=pairs,
              make_optimizer=optimizer_lib.optimizer, steps=2, tokens_per_batch=64, buckets=(16, 32),
              source_buckets=(16, 32)), **settings})

  return train, tmp_path / 'out'


@pytest.mark.long
def test_a_run_on_a_mesh_writes_a_model_and_its_report(run):
  train, directory = run
  report = train(mesh=Mesh(), microbatches=2, bleu_pairs=2, max_decode_len=4)
  assert report['left_out'] == 0 and report['steps'] == 2
  assert json.loads((directory / 'report.json').read_text()) == report
  model = load_model(directory / 'model')
  assert model.config.num_pieces == model.vocabulary.size
  assert all(np.isfinite(x).all() for x in model.params['decoder']['decoder_norm'].values())
  logged = [json.loads(line) for line in (directory / 'checkpoints' / 'log.jsonl').read_text().splitlines()]
  assert logged[-1]['validation_loss'] == pytest.approx(report['validation_loss']) and 'bleu' in logged[-1]


@pytest.mark.parametrize('wrong, words', [
    (dict(config=GPT2Config(vocab_size=24, emb_dim=16, num_heads=2, num_layers=1), bleu_pairs=2),
     'train.bleu_pairs is 2, but a decoder-only model has no source to translate; leave it at 0'),
    (dict(microbatches=0), 'train.microbatches is 0; it must be a whole number of at least 1'),
    (dict(divergence='tvd'), "train.divergence is 'tvd'; use 'kl', or with a train.teacher"),
    (dict(mesh=Mesh(model=100)), r'Mesh\(data=1, model=100\) needs 100 devices'),
])
def test_bad_settings_are_one_line(run, wrong, words):
  with pytest.raises(ValueError, match=words):
    run[0](**wrong)


def test_a_directory_belongs_to_its_data_and_models(run):
  train, directory = run
  train(steps=1)
  model = load_model(directory / 'model')
  pairs = [([5, 1], [6, 1])]
  for change, words in ((dict(train_pairs=[pairs]), 'The training pairs have changed since'),
                        (dict(validation_pairs=pairs), 'The validation pairs have changed since'),
                        (dict(init_from=model), 'The init_from has changed since'),
                        (dict(teacher=model), 'The teacher has changed since')):
    with pytest.raises(OutputError, match=words):
      train(**change)
