"""From a model directory to a checkpoint of another program, a leaf at a time: the importer's way back."""

import os
from collections.abc import Callable

from specdec_jax import arguments
from specdec_jax.checkpoints.description import find_vocabulary, read_config
from specdec_jax.checkpoints.directory import check_files
from specdec_jax.checkpoints.formats import FORMATS
from specdec_jax.checkpoints.huggingface import writer as huggingface
from specdec_jax.checkpoints.model_reader import ModelReader
from specdec_jax.checkpoints.storage import num_bytes
from specdec_jax.checkpoints.t5x import native_writer, orbax_writer
from specdec_jax.checkpoints.writers import Export
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.models.parameters import check_parameters
from specdec_jax.notes import note as tell

# A format is added here: what writes a model's export into an empty directory; the notes for the user are returned.
_WRITE = {'t5x': native_writer.write, 't5x_orbax': orbax_writer.write, 'huggingface': huggingface.write}


@arguments.checked(path=arguments.path, output=arguments.path, checkpoint_format=arguments.text_of(FORMATS),
                   dtype=arguments.optional(arguments.text_of(('float32', 'bfloat16'))), step=arguments.at_least(0))
def export_checkpoint(path: str | os.PathLike, output: str | os.PathLike, checkpoint_format: str, *,
                      dtype: str | None = None, step: int = 0,
                      progress: Callable[[int, int], None] = lambda done, total: None,
                      note: Callable[[str], None] = tell) -> None:
  """Reads a model directory and writes what another program restores; memory holds a part of the weights at a time.

  Args:
    path: a model directory, local or gs://, or 'embedded:ende/target'.
    output: a directory that does not exist, written whole or not at all: of T5X's formats the one that holds
      `checkpoint_{step}`, of 'huggingface' the checkpoint itself. The vocabulary goes along.
    checkpoint_format: one of `formats.FORMATS`.
    dtype: 'float32' or 'bfloat16' for matrices; by default as they are stored, int8 as float32. The rest is float32.
    step: of training, which T5X's checkpoints carry.
    progress: called with the bytes written so far and in all.
    note: called with each sentence on what the format cannot say; by default they go to stderr.

  Raises:
    CheckpointError: no model directory, or it is damaged.
    SettingError: the format has no such model.
    OutputError: the output exists, another process writes it, or the disk refuses.
  """
  source = absolute(path)
  config, storage = read_config(source)
  parts = check_files(source)
  reader = ModelReader(source, config, parts, dtype or ('bfloat16' if storage == 'bfloat16' else 'float32'))
  check_parameters({name: leaf.shape for name, leaf in reader.leaves.items()}, config, str(source))
  sizes = {name: num_bytes(leaf.shape, leaf.dtype) for name, leaf in reader.leaves.items()}
  done, total = 0, sum(sizes.values())

  def read(name):
    nonlocal done
    done += sizes[name]
    progress(done, total)
    return reader.read(name)

  model = Export(config=config, vocabulary=find_vocabulary(source, config), leaves=reader.leaves, read=read,
                 place=os.fspath(absolute(output)), step=step)
  with new_directory(output) as directory:
    for sentence in _WRITE[checkpoint_format](directory, model):
      note(sentence)
