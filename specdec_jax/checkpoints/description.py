"""What a model directory says of its model: config.json and the vocabulary's files."""

import dataclasses
import json
import os

from etils import epath

from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.data.byte_vocabulary import FILE as BYTES, ByteVocabulary
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.data.tokenizers_vocabulary import TOKENIZER, TokenizersVocabulary
from specdec_jax.data.vocabulary import SPIECE, Vocabulary
from specdec_jax.errors import CheckpointError, UserError
from specdec_jax.files import checksums, json_files
from specdec_jax.files.remote_directories import MARK
from specdec_jax.files.replacing import only
from specdec_jax.models.config import GPT2Config, T5Config

CONFIG, WEIGHTS = 'config.json', 'weights'
ARCHITECTURES = {'t5': T5Config, 'gpt2': GPT2Config}
# Of several the first is read.
_VOCABULARIES = {'t5': (TOKENIZER, BYTES, SPIECE), 'gpt2': (TOKENIZER, 'vocab.json')}
Config = T5Config | GPT2Config


def architecture_of(config: Config) -> str:
  """The name of a configuration's family, as config.json has it."""
  return next(name for name, kind in ARCHITECTURES.items() if isinstance(config, kind))


def write_description(directory: epath.Path, config: Config, storage: str, vocabulary: Tokenizer | None) -> None:
  """Writes the vocabulary, if any, and config.json."""
  architecture = architecture_of(config)
  for name, content in vocabulary.files.items() if vocabulary is not None else ():
    (directory / name).write_bytes(content)
  fields = {'architecture': architecture, 'storage': storage, **dataclasses.asdict(config)}
  (directory / CONFIG).write_text(json.dumps(fields, indent=1) + '\n')


def read_config(directory: str | os.PathLike) -> tuple[Config, str]:
  """The configuration and the storage of a model directory.

  Raises:
    CheckpointError: there is no model directory, or its config.json is damaged: the field and its value are named.
  """
  folder = epath.Path(directory)
  if not folder.is_dir():
    raise CheckpointError(f"No model directory at '{directory}'.")
  if (folder / MARK).exists():
    raise CheckpointError(f"'{directory}' is not whole: its writer is at work, or was stopped; see its {MARK}.")
  path = folder / CONFIG
  if not path.exists():
    raise CheckpointError(
        f"'{directory}' is not a model directory (it has no {CONFIG}); "
        'other checkpoints are brought in with scripts/import_checkpoint.py.')
  fields = json_files.read_json(path, 'configuration')
  name = fields.pop('architecture', None)
  kind = ARCHITECTURES.get(name) if isinstance(name, str) else None
  if 'storage' not in fields or kind is None:
    raise CheckpointError(
        f"'{path}' was not written by this project; import the checkpoint with "
        'scripts/import_checkpoint.py (Hugging Face models: --format=huggingface).')
  storage = fields.pop('storage')
  if storage not in storage_lib.STORAGES:
    raise CheckpointError(f"'{path}': storage is {storage!r}; known are {', '.join(storage_lib.STORAGES)}.")
  return _config(kind, fields, path), storage


def _config(kind: type[Config], fields: dict, path: epath.Path) -> Config:
  known = {field.name: field for field in dataclasses.fields(kind)}
  unknown = sorted(fields.keys() - known.keys())
  missing = [name for name, field in known.items() if name not in fields and field.default is dataclasses.MISSING]
  if unknown or missing:
    state = f"has the field '{unknown[0]}', which is not known here" if unknown else f"has no field '{missing[0]}'"
    raise CheckpointError(f"'{path}' {state}; was it written by another version, or changed?")
  try:
    return kind(**fields)
  except (TypeError, ValueError, OverflowError) as e:
    raise CheckpointError(f"'{path}': {e}") from e


def find_vocabulary(directory: str | os.PathLike, config: Config) -> Tokenizer | None:
  """The vocabulary that lies in a directory, ours or of a checkpoint; None where there is none."""
  for name in _VOCABULARIES[architecture_of(config)]:
    if (epath.Path(directory) / name).exists():
      return read_vocabulary(epath.Path(directory) / name, config)
  return None


def read_vocabulary(path: str | os.PathLike, config: Config) -> Tokenizer:
  """A file of a model directory, or one that the user names; a SentencePiece file with the model's sentinels."""
  name = epath.Path(path).name
  try:
    if name == BYTES:
      return ByteVocabulary.read(path)
    if config.decoder_only or name.endswith('.json'):
      return TokenizersVocabulary(path, config.eos_id, not config.decoder_only)
    found = Vocabulary(path)
    return found.with_sentinels(max(config.num_pieces - found.size, 0))
  except UserError as e:
    raise CheckpointError(str(e)) from e


def foreign(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`: what keeps a directory from being replaced by a model."""
  own = {CONFIG, WEIGHTS, checksums.NAME}.union(*_VOCABULARIES.values())
  reason = only(own)(directory) or storage_lib.foreign(directory / WEIGHTS)
  if reason:
    return reason
  try:
    read_config(directory)
  except CheckpointError as e:
    return f'is no model directory of this project ({e})'
  return None
