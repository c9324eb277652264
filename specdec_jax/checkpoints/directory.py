"""The model directory: config.json, spiece.model or tokenizer.json, and Orbax weights."""

import dataclasses
import json
import os

import jax.numpy as jnp
from etils import epath
from flax import traverse_util

from specdec_jax import arguments
from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import CheckpointError
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.files.replacing import only
from specdec_jax.model import Model
from specdec_jax.models.config import GPT2Config, T5Config
from specdec_jax.models.parameters import check_parameters
from specdec_jax.parallel.mesh import Mesh, placement

CONFIG, WEIGHTS = 'config.json', 'weights'
_ARCHITECTURES = {'t5': T5Config, 'gpt2': GPT2Config}
_VOCABULARIES = {'t5': ('spiece.model',), 'gpt2': ('tokenizer.json', 'vocab.json')}  # the first is written


@arguments.checked(
    path=arguments.path, dtype=arguments.optional(arguments.text_of(('float32', 'bfloat16'))),
    mesh=arguments.optional(arguments.instance(Mesh, 'a Mesh, or None')), replicated=arguments.flag)
def load_model(path: str | os.PathLike, dtype: str | None = None, mesh: Mesh | None = None,
               replicated: bool = False) -> Model:
  """Loads a model directory written by `save_model`, by training or by the importer.

  Args:
    path: a local or gs:// directory, or 'embedded:ende/target' for a shipped model.
    dtype: 'float32' or 'bfloat16' for weights and activations instead of the
      configuration's. Norm scales and relative biases are float32 in either.
    mesh: devices to lay the weights on, split along its 'model' axis as they are read.
    replicated: on a mesh, all weights on every device; for a small draft.

  Returns:
    The Model, weights on the mesh or on the default device.

  Raises:
    CheckpointError: no model there, or it is truncated, or does not fit its configuration.
    FileNotFoundError: no shipped model of that name.
    ValueError: the model does not divide into the mesh.
  """
  directory = absolute(path)
  config, _ = read_config(directory)
  if dtype is not None:
    config = dataclasses.replace(config, dtype=dtype)
  vocabulary = find_vocabulary(directory, config)
  if vocabulary is not None and not config.num_pieces:
    config = dataclasses.replace(config, num_pieces=vocabulary.size)
  put = placement(config, mesh, replicated) if mesh else lambda name, value: jnp.asarray(value)
  params = {name: put(name, value)
            for name, value in storage_lib.read(directory / WEIGHTS, config.dtype)}
  check_parameters({name: value.shape for name, value in params.items()}, config, str(directory))
  return Model(traverse_util.unflatten_dict(params, sep='/'), config, vocabulary)


@arguments.checked(model=arguments.instance(Model, 'a Model'), path=arguments.path,
                   storage=arguments.text_of(storage_lib.STORAGES), overwrite=arguments.flag)
def save_model(model: Model, path: str | os.PathLike, storage: str = 'float32',
               overwrite: bool = False) -> None:
  """Writes a model directory; it appears under its name only when it is complete.

  Args:
    model: what to write.
    path: a local or gs:// directory that does not exist.
    storage: 'float32', 'bfloat16' or 'int8' (a scale per output channel), for
      kernels and the embedding; the rest is float32.
    overwrite: replace an existing model directory, one that holds nothing else.
  """
  with new_directory(path, _not_of_a_model if overwrite else None) as directory:
    with storage_lib.Writer(directory / WEIGHTS, storage) as writer:
      for name, value in traverse_util.flatten_dict(model.params, sep='/').items():
        writer.add(name, value)
    write_description(directory, model.config, storage, model.vocabulary)


def write_description(directory, config: T5Config | GPT2Config, storage: str, vocabulary) -> None:
  """Writes the vocabulary, if any, and, last of all, config.json."""
  architecture = _architecture(config)
  if vocabulary is not None:
    (directory / _VOCABULARIES[architecture][0]).write_bytes(vocabulary.model_bytes)
  fields = {'architecture': architecture, 'storage': storage, **dataclasses.asdict(config)}
  (directory / CONFIG).write_text(json.dumps(fields, indent=1) + '\n')


def _not_of_a_model(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`."""
  own = {CONFIG, WEIGHTS}.union(*_VOCABULARIES.values())
  reason = only(own)(directory) or storage_lib.foreign(directory / WEIGHTS)
  if reason:
    return reason
  try:
    read_config(directory)
  except CheckpointError as e:
    return f'is no model directory of this project ({e})'
  return None


def _architecture(config) -> str:
  return next(name for name, kind in _ARCHITECTURES.items() if isinstance(config, kind))


def read_config(directory) -> tuple[T5Config | GPT2Config, str]:
  """The configuration and the storage of a model directory."""
  directory = epath.Path(directory)
  if not directory.is_dir():
    raise CheckpointError(f"No model directory at '{directory}'.")
  if not (directory / CONFIG).exists():
    raise CheckpointError(
        f"'{directory}' is not a model directory (it has no {CONFIG}); "
        'other checkpoints are brought in with scripts/import_checkpoint.py.')
  try:
    fields = json.loads((directory / CONFIG).read_text())
    if not isinstance(fields, dict):
      raise ValueError('not a JSON object')
  except ValueError as e:
    raise CheckpointError(f"'{directory / CONFIG}' is truncated or not JSON ({e}).") from e
  kind = _ARCHITECTURES.get(fields.pop('architecture', None))
  if 'storage' not in fields or kind is None:
    raise CheckpointError(
        f"'{directory / CONFIG}' was not written by this project; import the checkpoint with "
        'scripts/import_checkpoint.py (Hugging Face models: --format=huggingface).')
  storage = fields.pop('storage')
  try:
    return kind(**fields), storage
  except (TypeError, ValueError) as e:
    raise CheckpointError(f"'{directory / CONFIG}': {e}") from e


def find_vocabulary(directory, config: T5Config | GPT2Config):
  """The vocabulary that lies in a directory, ours or of a checkpoint; None where there is none."""
  for name in _VOCABULARIES[_architecture(config)]:
    if (epath.Path(directory) / name).exists():
      return read_vocabulary(epath.Path(directory) / name, config)
  return None


def read_vocabulary(path, config: T5Config | GPT2Config):
  """A SentencePiece file, or for a decoder-only model one of the tokenizers library."""
  try:
    return TokenizersVocabulary(path, config.eos_id) if config.decoder_only else Vocabulary(path)
  except ValueError as e:
    raise CheckpointError(str(e)) from e
