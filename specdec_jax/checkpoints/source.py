"""A checkpoint of another program as the model that it is: what `importer` writes down and `load_model` loads."""

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from etils import epath

from specdec_jax import checks
from specdec_jax.checkpoints import conventions, storage as storage_lib
from specdec_jax.checkpoints.description import Config, Tokenizer, find_vocabulary, read_vocabulary
from specdec_jax.checkpoints.formats import T5X_FORMATS, open_checkpoint
from specdec_jax.checkpoints.gin_fields import fields_from_gin
from specdec_jax.checkpoints.huggingface import hub, tokenizer
from specdec_jax.checkpoints.numbers import count_nonfinite
from specdec_jax.checkpoints.readers import Reader
from specdec_jax.checkpoints.sizes import config_from_leaves
from specdec_jax.checkpoints.t5x.flaxformer import is_gated
from specdec_jax.data.byte_vocabulary import NAME as BYTES
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.locations import absolute
from specdec_jax.models.activations import ACTIVATIONS
from specdec_jax.models.config import T5Config
from specdec_jax.models.config_checks import eos_difference
from specdec_jax.models.parameters import check_parameters, is_matrix

_FLOATS = ('float32', 'bfloat16', 'float16', 'float64')


@dataclasses.dataclass(frozen=True)
class Source:
  """A checkpoint of which all but the weights is read and checked.

  Attributes:
    reader: of its weights.
    config: of the model.
    storage: of a model directory made of it.
    vocabulary: None where none was found.
    assumed: sentences on what was taken for granted or passed over.
  """

  reader: Reader
  config: Config
  storage: str
  vocabulary: Tokenizer | None
  assumed: list[str]


def prepare(path: str | os.PathLike, checkpoint_format: str, *, vocabulary: str | os.PathLike | None = None,
            gin_file: str | os.PathLike | None = None, storage: str | None = None, extra_ids: int | None = None,
            activation: str | None = None, ignore: Sequence[str] = ()) -> Source:
  """Opens a checkpoint and works out the model that it is, reading no weights.

  Args:
    path: the checkpoint, local or gs://, or a name of the Hugging Face hub; see `hub.download`.
    checkpoint_format: one of `formats.FORMATS`.
    vocabulary: a SentencePiece file, tokenizer.json, vocab.json with merges.txt beside it, BERT's vocab.txt (of a
      Hugging Face checkpoint), or 'bytes' for ByT5's; by default the checkpoint's own, or the one beside a T5X
      checkpoint, if any.
    gin_file: sets fields of the configuration; what it says goes before all else.
    storage: 'float32', 'bfloat16' (computes in bfloat16 too) or 'int8'; by default
      as the checkpoint's own matrices, bfloat16 or float32, computed in float32.
    extra_ids: sentinels after the SentencePiece file's pieces, or the bytes; see `conventions.num_pieces`.
    activation: of the feed-forward layers of a T5X checkpoint, a name of `activations.ACTIVATIONS`, where the
      checkpoint carries no configuration; whether they are gated is seen.
    ignore: settings of a Hugging Face checkpoint to pass over; see `generation.notes`.

  Raises:
    CheckpointError: see `formats.open_checkpoint`, `parameters.check_parameters`.
    SettingError: a setting that is wrong or of no use here.
  """
  if extra_ids is not None:
    extra_ids = checks.whole('extra_ids', extra_ids, 0)
  if storage not in (None, *storage_lib.STORAGES):
    raise SettingError(f"storage is '{storage}'; use one of {', '.join(storage_lib.STORAGES)}.")
  hub_note: list[str] = []
  if checkpoint_format == 'huggingface' and hub.is_name(os.fspath(path)) and not absolute(path).exists():
    path = hub.download(name := os.fspath(path))
    hub_note = [f"'{name}' was downloaded from the Hugging Face hub to '{path}'."]
  reader = open_checkpoint(path, checkpoint_format, ignore)
  _check_dtypes(reader)
  said = _said(reader, gin_file, activation)
  config = reader.config or config_from_leaves(reader.leaves, reader.source)
  unsaid = set(reader.assumed if reader.config else conventions.of_t5x(config)) - said.keys()
  if 'mlp_activations' in unsaid and config.logits_via_embedding and is_gated(reader.leaves):
    raise CheckpointError(conventions.like_ul2(reader.source))
  stated = None if 'eos_ids' in unsaid else _replace(config, said).eos_id
  tokens = _find_vocabulary(absolute(path), checkpoint_format, vocabulary, config, stated, extra_ids)
  notes = [*hub_note, *reader.notes]
  fields: dict[str, Any] = {}
  found = None
  if tokens is None:
    notes.append(conventions.no_vocabulary(config))
  else:
    found, fields['num_pieces'] = tokens.vocabulary, tokens.num_pieces
    notes += tokens.notes
    if 'eos_ids' in unsaid:
      fields |= {'eos_id': found.eos_id, 'eos_ids': (found.eos_id,)}
      unsaid.discard('eos_ids')
      notes += [conventions.end_of_text(found)] if reader.config else []
  config = _replace(config, {**fields, **said})
  if isinstance(found, Vocabulary):
    found = found.with_sentinels(config.num_pieces - found.size)
  notes += conventions.assumed(config, unsaid)
  if reader.config is None:
    notes += conventions.padding_of_t5x(config, 'pad_id' in said)
  if difference := eos_difference(config, found):
    notes.append(difference)
  if storage == 'bfloat16':
    config = dataclasses.replace(config, dtype='bfloat16')
  check_parameters({name: leaf.shape for name, leaf in reader.leaves.items()}, config, reader.source)
  return Source(reader, config, storage or _own_storage(reader), found, notes)


def _said(reader: Reader, gin_file, activation: str | None) -> dict:
  """Fields of the configuration that the user gives."""
  fields = fields_from_gin(gin_file, type(reader.config) if reader.config else T5Config) if gin_file else {}
  if 'eos_id' in fields or 'eos_ids' in fields:
    fields = {'eos_id': None, 'eos_ids': (), **fields}
  if activation is None:
    return fields
  if reader.config is not None or 'mlp_activations' in fields:
    place = 'the gin file' if reader.config is None else 'config.json'
    raise SettingError(f'activation is {activation!r}, but {place} says the activation; leave one of them out.')
  if activation not in ACTIVATIONS:
    raise SettingError(f"activation is {activation!r}; use one of {', '.join(ACTIVATIONS)}.")
  return {**fields, 'mlp_activations': (activation, 'linear') if is_gated(reader.leaves) else (activation,)}


def _replace(config: Config, fields: dict) -> Config:
  try:
    return dataclasses.replace(config, **fields)
  except (TypeError, ValueError) as e:
    raise CheckpointError(str(e)) from e


def _find_vocabulary(place: epath.Path, checkpoint_format: str, vocabulary, config: Config, eos_id: int | None,
                     extra_ids: int | None) -> tokenizer.Found | None:
  """The vocabulary that the user names, or that lies in a checkpoint, or beside one of T5X.

  Args:
    eos_id: of the model, where something says it.
  """
  named = None if vocabulary is None else absolute(vocabulary)
  if vocabulary == BYTES and not named.exists():
    return tokenizer.read(place / BYTES, config, eos_id, extra_ids)
  if checkpoint_format not in T5X_FORMATS:
    return tokenizer.find(place, config, eos_id, extra_ids) if named is None else tokenizer.read(
        named, config, eos_id, extra_ids)
  if named is None:
    found = find_vocabulary(place, config) or find_vocabulary(place.parent, config)
  else:
    found = read_vocabulary(named, config)
  if found is None:
    return None
  if isinstance(found, Vocabulary):
    return tokenizer.Found(found, *conventions.num_pieces(config, found, extra_ids))
  if extra_ids is not None:
    raise SettingError(f"extra_ids is for SentencePiece files; '{found.path}' names its sentinels itself.")
  return tokenizer.Found(found, found.size, conventions.padding(config, found))


def _check_dtypes(reader: Reader) -> None:
  bad = [f'{name} ({leaf.dtype})' for name, leaf in reader.leaves.items()
         if leaf.dtype not in _FLOATS]
  if bad:
    more = f' and {len(bad) - 3} more' if len(bad) > 3 else ''
    raise CheckpointError(f"'{reader.source}' has parameters that are not floats: "
                          f"{', '.join(bad[:3])}{more}; quantised checkpoints cannot be imported.")


def check_finite(name: str, value: np.ndarray, source: str, allow: Callable[[str], None] | None) -> None:
  """Refuses weights that are NaN or infinite, or names them by `allow`."""
  count = count_nonfinite(value)
  if not count:
    return
  text = f"'{name}' of '{source}' has {count} of {value.size} numbers that are NaN or infinite"
  if allow is None:
    raise CheckpointError(f'{text}: it is damaged, or its training diverged. --allow_nonfinite imports it all the '
                          'same.')
  allow(f'{text}; imported all the same.')


def _own_storage(reader: Reader) -> str:
  dtypes = {leaf.dtype for name, leaf in reader.leaves.items() if is_matrix(name, leaf.shape)}
  return 'bfloat16' if dtypes == {'bfloat16'} else 'float32'
