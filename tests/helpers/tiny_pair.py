"""Fixtures: a tiny random pair of models with a vocabulary of its own, and inputs for it."""

import io
import json

import jax
import jax.numpy as jnp
import pytest
import sentencepiece

from specdec_jax.checkpoints.directory import save_model
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.model import Model
from specdec_jax.models.config import T5Config
from specdec_jax.models.t5 import T5

WORDS = 'the file cannot be opened because window of new media size is not valid here today'.split()
SENTENCES = [' '.join(WORDS[(i * k) % len(WORDS)] for k in range(1, 3 + i % 9))
             for i in range(1, 60)]


def random_model(seed, vocabulary, layers, width, **changes):
  config = T5Config(vocab_size=128, emb_dim=width, num_heads=2, head_dim=8, mlp_dim=2 * width,
                    num_encoder_layers=1, num_decoder_layers=layers, num_pieces=vocabulary.size,
                    **changes)
  token = jnp.zeros((1, 1), jnp.int32)
  params = jax.jit(T5(config).init)(jax.random.key(seed), token, token)['params']
  return Model(params, config, vocabulary)


@pytest.fixture(scope='session')
def vocabulary(tmp_path_factory):
  model = io.BytesIO()
  sentencepiece.SentencePieceTrainer.train(
      sentence_iterator=iter(SENTENCES * 4), model_writer=model, vocab_size=60, pad_id=0, eos_id=1,
      unk_id=2, bos_id=-1, hard_vocab_limit=False, minloglevel=2)
  path = tmp_path_factory.mktemp('vocabulary') / 'spiece.model'
  path.write_bytes(model.getvalue())
  return Vocabulary(path)


@pytest.fixture(scope='session')
def target(vocabulary):
  return random_model(0, vocabulary, 2, 32)


@pytest.fixture(scope='session')
def draft(vocabulary):
  return random_model(1, vocabulary, 1, 16)


@pytest.fixture(scope='session')
def files(tmp_path_factory, target, draft):
  """A directory with target/, draft/ and inputs.jsonl (12 examples, ids a0 to a11)."""
  directory = tmp_path_factory.mktemp('pair')
  save_model(target, directory / 'target')
  save_model(draft, directory / 'draft')
  with open(directory / 'inputs.jsonl', 'w', encoding='utf-8') as f:
    for i, text in enumerate(SENTENCES[:12]):
      f.write(json.dumps({'id': f'a{i}', 'text': text, 'german': text.upper()}) + '\n')
  return directory
