"""What T5X's two formats share when they are written: arrays, the vocabulary, and a gin file with the sizes."""

import os

import numpy as np
from etils import epath

from specdec_jax.checkpoints.t5x import fields
from specdec_jax.checkpoints.writers import Export, writing
from specdec_jax.data.byte_vocabulary import ByteVocabulary
from specdec_jax.data.vocabulary import SPIECE, Vocabulary
from specdec_jax.errors import SettingError
from specdec_jax.files.locations import kvstore
from specdec_jax.models.config import T5Config

GIN = 'model.gin'
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
  for name, content in model.vocabulary.files.items() if model.vocabulary is not None else ():
    with writing(directory / name):
      (directory / name).write_bytes(content)
  other = fields.differences(t5_config(model))
  if other:
    return [f"T5X's minimal network has no {', '.join(other)}: no {GIN} was written, and T5X needs a network of your "
            'own for these weights.']
  with writing(directory / GIN):
    (directory / GIN).write_text(gin_text(model))
  if _vocabulary(model) is None:
    why = 'The model has no vocabulary' if model.vocabulary is None else "T5X cannot read the model's vocabulary"
    return [f'{why}; set VOCABULARY in {GIN}.']
  rows = model.config.vocab_size - (model.config.num_pieces or model.config.vocab_size)
  return [f'T5X does not mask the {rows} padding rows after the vocabulary.'] if rows else []


def _vocabulary(model: Export) -> str | None:
  """The model's vocabulary in gin, as seqio has it; None where it has not."""
  vocabulary = model.vocabulary
  if isinstance(vocabulary, ByteVocabulary) and not vocabulary.added:
    return f'VOCABULARY = @seqio.ByteVocabulary()\nseqio.ByteVocabulary.extra_ids = {vocabulary.extra_ids}'
  if vocabulary is None or SPIECE not in vocabulary.files:
    return None
  spiece = Vocabulary.of(vocabulary.files[SPIECE], SPIECE)
  spiece = spiece.with_sentinels(max(vocabulary.size - spiece.size, 0))
  if spiece != vocabulary:
    return None
  return f'''\
VOCABULARY = @seqio.SentencePieceVocabulary()
seqio.SentencePieceVocabulary:
  sentencepiece_model_file = {os.path.join(model.place, SPIECE)!r}
  extra_ids = {spiece.extra_ids}'''


def gin_text(model: Export) -> str:
  """MODEL and VOCABULARY for T5X's own programs."""
  vocabulary = _vocabulary(model) or 'VOCABULARY = %gin.REQUIRED'
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
