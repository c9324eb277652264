"""From a checkpoint of another program to a model directory, a leaf at a time."""

import dataclasses
import os
from collections.abc import Callable

from specdec_jax.checkpoints import directory as directory_lib, storage as storage_lib
from specdec_jax.checkpoints.formats import open_checkpoint
from specdec_jax.checkpoints.gin_fields import fields_from_gin
from specdec_jax.checkpoints.readers import Reader
from specdec_jax.checkpoints.sizes import config_from_leaves
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.locations import absolute
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.parameters import check_parameters, is_matrix

_FLOATS = ('float32', 'bfloat16', 'float16', 'float64')
# Sentinels that T5's programs append to a SentencePiece file, by its size.
_EXTRA_IDS = {32_000: 100, 250_000: 100, 256_000: 300}


def import_checkpoint(path: str | os.PathLike, output: str | os.PathLike, checkpoint_format: str, *,
                      vocabulary: str | os.PathLike | None = None,
                      gin_file: str | os.PathLike | None = None, storage: str | None = None,
                      extra_ids: int | None = None,
                      progress: Callable[[int, int], None] = lambda done, total: None
                      ) -> T5Config | GPT2Config:
  """Reads a checkpoint and writes a model directory; memory holds a few leaves at a time.

  Args:
    path: the checkpoint, local or gs://.
    output: the model directory, which must not exist. Written whole or not at all.
    checkpoint_format: one of `formats.FORMATS`.
    vocabulary: a SentencePiece file, of a GPT-2 tokenizer.json, or vocab.json with merges.txt
      beside it; by default the checkpoint's own, if any.
    gin_file: sets fields of the configuration that the checkpoint doesn't tell.
    storage: 'float32', 'bfloat16' (computes in bfloat16 too) or 'int8'; by default
      as the checkpoint's own matrices, bfloat16 or float32, computed in float32.
    extra_ids: sentinels beyond the SentencePiece file's pieces; by default what
      T5's, mT5's and UMT5's own vocabularies have, 0 for others.
    progress: called with the bytes read so far and in all.

  Returns:
    The model's configuration.

  Raises:
    CheckpointError: see `formats.open_checkpoint`, `parameters.check_parameters`.
  """
  if storage not in (None, *storage_lib.STORAGES):
    raise SettingError(f"storage is '{storage}'; use one of {', '.join(storage_lib.STORAGES)}.")
  reader = open_checkpoint(path, checkpoint_format)
  config = getattr(reader, 'config', None) or config_from_leaves(reader.leaves, reader.source)
  pieces = _find_vocabulary(path, vocabulary, config)
  config = _configure(config, gin_file, pieces, extra_ids)
  if storage == 'bfloat16':
    config = dataclasses.replace(config, dtype='bfloat16')
  leaves = reader.leaves
  check_parameters({name: leaf.shape for name, leaf in leaves.items()}, config, reader.source)
  _check_dtypes(reader)
  storage = storage or _own_storage(reader)
  sizes = {name: storage_lib.num_bytes(leaf.shape, leaf.dtype) for name, leaf in leaves.items()}
  done, total = 0, sum(sizes.values())
  with directory_lib.new_directory(output) as directory:
    with storage_lib.Writer(directory / directory_lib.WEIGHTS, storage) as writer:
      for name in leaves:
        writer.add(name, reader.read(name))
        done += sizes[name]
        progress(done, total)
    directory_lib.write_description(directory, config, storage, pieces)
  return config


def _configure(config, gin_file, vocabulary, extra_ids: int | None):
  """The checkpoint's configuration, changed by gin and the vocabulary."""
  fields = fields_from_gin(gin_file, type(config)) if gin_file else {}
  if vocabulary is not None:
    extra = _EXTRA_IDS.get(vocabulary.size, 0) if extra_ids is None else extra_ids
    fields = {'eos_id': vocabulary.eos_id, 'num_pieces': vocabulary.size + extra, **fields}
  try:
    return dataclasses.replace(config, **fields)
  except (TypeError, ValueError) as e:
    raise CheckpointError(str(e)) from e


def _find_vocabulary(path, vocabulary, config):
  if vocabulary is None:
    return directory_lib.find_vocabulary(absolute(path), config)
  if not absolute(vocabulary).exists():
    raise CheckpointError(f"No vocabulary file at '{absolute(vocabulary)}'.")
  return directory_lib.read_vocabulary(absolute(vocabulary), config)


def _check_dtypes(reader: Reader) -> None:
  bad = [f'{name} ({leaf.dtype})' for name, leaf in reader.leaves.items()
         if leaf.dtype not in _FLOATS]
  if bad:
    raise CheckpointError(f"'{reader.source}' has parameters that are not floats: "
                          f"{', '.join(bad)}; quantised checkpoints cannot be imported.")


def _own_storage(reader: Reader) -> str:
  dtypes = {leaf.dtype for name, leaf in reader.leaves.items() if is_matrix(name, leaf.shape)}
  return 'bfloat16' if dtypes == {'bfloat16'} else 'float32'
