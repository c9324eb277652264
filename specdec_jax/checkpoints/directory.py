"""The model directory: config.json, spiece.model or tokenizer.json, Orbax weights, and files.json over them all."""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath
from flax import traverse_util

from specdec_jax import arguments
from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.checkpoints.description import (
    CONFIG,
    WEIGHTS,
    Config,
    Tokenizer,
    find_vocabulary,
    foreign,
    read_config,
    write_description,
)
from specdec_jax.checkpoints.formats import T5X_FORMATS, guess_format
from specdec_jax.checkpoints.source import check_finite, prepare
from specdec_jax.errors import SettingError
from specdec_jax.files import checksums
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.model import Model
from specdec_jax.models.parameters import check_parameters, parameter_dtypes
from specdec_jax.notes import note
from specdec_jax.parallel.mesh import Mesh, placement


@arguments.checked(
    path=arguments.path, vocabulary=arguments.optional(arguments.path), gin_file=arguments.optional(arguments.path),
    dtype=arguments.optional(arguments.text_of((*storage_lib.STORAGES, 'auto'))),
    mesh=arguments.optional(arguments.instance(Mesh, 'a Mesh, or None')), replicated=arguments.flag,
    verify=arguments.flag)
def load_model(path: str | os.PathLike, dtype: str | None = None, mesh: Mesh | None = None,
               replicated: bool = False, verify: bool = True, vocabulary: str | os.PathLike | None = None,
               gin_file: str | os.PathLike | None = None) -> Model:
  """Loads a model directory written by `save_model`, by training or by the importer, or a T5X checkpoint as it is.

  Args:
    path: a local or gs:// directory: of a model, or `checkpoint_N` of T5X; or 'embedded:ende/target' for a shipped
      model.
    dtype: 'float32' or 'bfloat16' for weights and activations instead of the configuration's. Norm scales and
      relative biases are float32 in either. 'int8': kernels and embedding are int8 in memory, with a scale for each
      output channel, and activations as the configuration says; the model is then another one, named so, and what
      it decodes has its own distribution. 'auto': on a CPU float32 or bfloat16, whichever a timed step and pass say
      is faster (`auto_dtype`); on a TPU or GPU bfloat16. Which it is, and why, is told on stderr.
    mesh: devices to lay the weights on, split along its 'model' axis as they are read.
    replicated: on a mesh, all weights on every device; for a small draft.
    verify: compare the checksum of every file with the one in files.json, for which every file is read once
      more; otherwise the sizes of the weights alone. A T5X checkpoint has no checksums.
    vocabulary, gin_file: of a T5X checkpoint, see `source.prepare`; what neither says is assumed, and told on stderr.

  Returns:
    The Model, weights on the mesh or on the default device.

  Raises:
    CheckpointError: no model there, or it is truncated or damaged, or does not fit its configuration.
    MissingError: no shipped model of that name.
    SettingError: the model does not divide into the mesh, or its own files say what an argument says.
  """
  if dtype == 'auto':
    return _in_the_faster_dtype(functools.partial(
        load_model, path, mesh=mesh, replicated=replicated, verify=verify, vocabulary=vocabulary, gin_file=gin_file))
  directory = absolute(path)
  is_model = (directory / CONFIG).exists() or not directory.is_dir()
  if not is_model and (kind := guess_format(directory)) in T5X_FORMATS:
    config, tokenizer, leaves = _checkpoint(directory, kind, dtype, vocabulary, gin_file)
  else:
    config, tokenizer, leaves = _model(directory, dtype, verify)
    for name, value in (('vocabulary', vocabulary), ('gin_file', gin_file)):
      if value is not None:
        raise SettingError(f"{name} is for T5X checkpoints; '{directory}' is a model directory and says it itself.")
  put = placement(config, mesh, replicated) if mesh else lambda name, value: jnp.asarray(value)
  params = {name: put(name, value) for name, value in leaves}
  check_parameters({name: value.shape for name, value in params.items()}, config, str(directory))
  return Model(traverse_util.unflatten_dict(params, sep='/'), config, tokenizer)


def _in_the_faster_dtype(load: Callable[..., Model]) -> Model:
  """What `load(dtype=...)` loads, for dtype 'auto'."""
  if jax.default_backend() != 'cpu':
    note("dtype 'auto' is bfloat16, as on every TPU and GPU.")
    return load(dtype='bfloat16')
  from specdec_jax.checkpoints import auto_dtype  # the decoding loop, which no other load needs
  model, reason = auto_dtype.faster(load(dtype='float32'))
  note(reason)
  return model


_Loaded = tuple[Config, Tokenizer | None, Iterator[tuple[str, np.ndarray]]]  # the weights one by one


def _model(directory: epath.Path, dtype: str | None, verify: bool) -> _Loaded:
  """What a model directory holds."""
  config, _ = read_config(directory)
  parts = check_files(directory, verify)
  config = _as(config, dtype)
  vocabulary = find_vocabulary(directory, config)
  if vocabulary is not None and not config.num_pieces:
    config = dataclasses.replace(config, num_pieces=vocabulary.size)
  return config, vocabulary, storage_lib.read_as(directory / WEIGHTS, parameter_dtypes(config), parts)


def _as(config: Config, dtype: str | None) -> Config:
  """A configuration with the numbers that `load_model` is asked for."""
  if dtype is None:
    return config
  return dataclasses.replace(config, **({'int8_weights': True} if dtype == 'int8' else
                                        {'dtype': dtype, 'int8_weights': False}))


def _checkpoint(directory: epath.Path, kind: str, dtype: str | None, vocabulary, gin_file) -> _Loaded:
  """What a checkpoint of another program holds."""
  source = prepare(directory, kind, vocabulary=vocabulary, gin_file=gin_file)
  for sentence in source.assumed:
    note(sentence)
  config, reader = _as(source.config, dtype), source.reader

  dtypes = parameter_dtypes(config)

  def leaves():
    reader.check_copies()
    for name in reader.leaves:
      value = reader.read(name)
      check_finite(name, value, reader.source, None)
      yield from storage_lib.kept(name, value, dtypes)

  return config, source.vocabulary, leaves()


@arguments.checked(model=arguments.instance(Model, 'a Model'), path=arguments.path,
                   storage=arguments.text_of(storage_lib.STORAGES), overwrite=arguments.flag)
def save_model(model: Model, path: str | os.PathLike, storage: str = 'float32',
               overwrite: bool = False) -> None:
  """Writes a model directory; a local one appears under its name only when it is complete.

  Args:
    model: what to write.
    path: a local or gs:// directory that does not exist.
    storage: 'float32', 'bfloat16' or 'int8' (a scale per output channel), for
      kernels and the embedding; the rest is float32. A model of int8 weights is stored as int8, bit for bit, and
      is one again by `load_model(path, dtype='int8')`.
    overwrite: replace an existing model directory, one that holds nothing else.

  Raises:
    OutputError: something else stands there, another process writes there, or the disk refuses.
    CheckpointError: weights that the storage has no room for.
    SettingError: another storage for a model of int8 weights.
  """
  if model.config.int8_weights and storage != 'int8':
    raise SettingError(f"storage is '{storage}', but the model's weights are int8: use 'int8', or load it in another "
                       'dtype before it is saved.')
  with new_model_directory(path, overwrite) as directory:
    with storage_lib.Writer(directory / WEIGHTS, storage) as writer:
      for name, value in _to_store(model):
        writer.add(name, value)
    write_description(directory, dataclasses.replace(model.config, int8_weights=False), storage, model.vocabulary)
    checksums.seal(directory)


def _to_store(model: Model) -> Iterator[tuple[str, Any]]:
  """Every leaf as `Writer.add` takes it; int8 with its scales, which have both axes as the values."""
  params = traverse_util.flatten_dict(model.params, sep='/')
  quantised = {path for path, dtype in parameter_dtypes(model.config).items() if dtype == 'int8'}
  scales = {path: f"{path.rpartition('/')[0]}/scale" for path in quantised}
  for name, value in params.items():
    if name in quantised:
      scale = np.asarray(params[scales[name]])
      yield name, {'values': np.asarray(value), 'scale': scale[:, None] if name.endswith('embedding') else scale[None]}
    elif name not in scales.values():
      yield name, value


def new_model_directory(path: str | os.PathLike, overwrite: bool = False):
  """`new_directory` for a model."""
  return new_directory(path, foreign if overwrite else None)


def check_files(directory: epath.Path, contents: bool = True,
                progress: Callable[[int, int], None] = lambda done, total: None) -> list[str]:
  """Compares the files of a model directory with files.json.

  Args:
    directory: of a model; one from before there were checksums has sizes of the weights alone.
    contents: compare the checksums of all files; otherwise the sizes of the weights alone.
    progress: called with the bytes read and in all.

  Returns:
    The names of the weights' parts.

  Raises:
    CheckpointError: the first file that is missing, of another size or of another content.
  """
  if not checksums.is_sealed(directory):
    return storage_lib.check_old(directory / WEIGHTS)
  sizes, prefix = checksums.check(directory, contents, progress), f'{WEIGHTS}/'
  weights = {name: size for name, size in sizes.items() if name.startswith(prefix)}
  checksums.check_sizes(directory, weights)
  return storage_lib.parts_of(name.removeprefix(prefix) for name in weights)
