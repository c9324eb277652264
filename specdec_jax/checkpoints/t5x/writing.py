"""What T5X's two formats share when they are written: arrays, the vocabulary, and a gin file with the sizes."""

import os

import numpy as np
from etils import epath

from specdec_jax.checkpoints.t5x import fields
from specdec_jax.checkpoints.writers import Export, writing
from specdec_jax.errors import SettingError
from specdec_jax.files.locations import kvstore
from specdec_jax.models.config import T5Config

SPIECE, GIN = 'spiece.model', 'model.gin'
_CHUNK_BYTES = 64 << 20


def write_array(directory: epath.Path, folder: str, value: np.ndarray) -> dict:
  """Writes a zarr array into a folder; returns TensorStore's metadata of it.

  Chunks are of whole rows and at most 64 MiB, so that several hosts can each read a part.
  """
  import tensorstore as ts
  chunks = list(value.shape)
  if chunks:
    chunks[0] = min(chunks[0], max(1, _CHUNK_BYTES * chunks[0] // max(value.nbytes, 1)))
  store = kvstore(directory)
  metadata = {'shape': list(value.shape), 'chunks': chunks, 'compressor': {'id': 'gzip', 'level': 1}}
  spec = {'driver': 'zarr', 'dtype': value.dtype.name, 'kvstore': {**store, 'path': f"{store['path']}{folder}/"},
          'metadata': metadata}
  with writing(directory / folder):
    ts.open(spec, create=True, open=False).result().write(value).result()
  return metadata


def t5_config(model: Export) -> T5Config:
  """SettingError for a model that T5X has not."""
  if isinstance(model.config, T5Config):
    return model.config
  raise SettingError('T5X has no GPT-2; export this model with --format=huggingface.')


def describe(directory: epath.Path, model: Export) -> list[str]:
  """Writes the vocabulary and a gin file with the model; returns sentences on what T5X cannot be told."""
  if model.vocabulary is not None:
    with writing(directory / SPIECE):
      (directory / SPIECE).write_bytes(model.vocabulary.model_bytes)
  other = fields.differences(t5_config(model))
  if other:
    return [f"T5X's minimal network has no {', '.join(other)}: no {GIN} was written, and T5X needs a network of your "
            'own for these weights.']
  with writing(directory / GIN):
    (directory / GIN).write_text(gin_text(model))
  if model.vocabulary is None:
    return [f'The model has no vocabulary; set VOCABULARY in {GIN}.']
  rows = model.config.vocab_size - (model.config.num_pieces or model.config.vocab_size)
  return [f'T5X does not mask the {rows} padding rows after the vocabulary.'] if rows else []


def gin_text(model: Export) -> str:
  """MODEL and VOCABULARY for T5X's own programs."""
  spiece = os.path.join(model.place, SPIECE)
  vocabulary = 'VOCABULARY = %gin.REQUIRED' if model.vocabulary is None else f'''\
VOCABULARY = @seqio.SentencePieceVocabulary()
seqio.SentencePieceVocabulary:
  sentencepiece_model_file = {spiece!r}
  extra_ids = {model.extra_ids}'''
  sizes = '\n'.join(f'  {name} = {value!r}' for name, value in fields.to_t5x(t5_config(model)).items())
  return f'''# This model for T5X's programs. Its weights are the checkpoint
# {os.path.join(model.place, f'checkpoint_{model.step}')!r}
from __gin__ import dynamic_registration

import seqio
from t5x import models
from t5x.examples.t5 import network

{vocabulary}

MODEL = @models.EncoderDecoderModel()
models.EncoderDecoderModel:
  module = @network.Transformer()
  input_vocabulary = %VOCABULARY
  output_vocabulary = %VOCABULARY
  optimizer_def = None

network.Transformer.config = @network.T5Config()
network.T5Config:
{sizes}
'''
