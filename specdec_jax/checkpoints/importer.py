"""From a checkpoint of another program to a model directory, a leaf at a time."""

import os
from collections.abc import Callable, Sequence

from specdec_jax.checkpoints import storage as storage_lib
from specdec_jax.checkpoints.description import WEIGHTS, Config, write_description
from specdec_jax.checkpoints.directory import new_model_directory
from specdec_jax.checkpoints.source import check_finite, prepare
from specdec_jax.files import checksums
from specdec_jax.notes import note as tell


def import_checkpoint(path: str | os.PathLike, output: str | os.PathLike, checkpoint_format: str, *,
                      vocabulary: str | os.PathLike | None = None, gin_file: str | os.PathLike | None = None,
                      storage: str | None = None, extra_ids: int | None = None, activation: str | None = None,
                      ignore: Sequence[str] = (), allow_nonfinite: bool = False,
                      progress: Callable[[int, int], None] = lambda done, total: None,
                      note: Callable[[str], None] = tell) -> Config:
  """Reads a checkpoint and writes a model directory; memory holds a few leaves at a time.

  Args:
    path, checkpoint_format, vocabulary, gin_file, storage, extra_ids, activation, ignore: see `source.prepare`.
    output: the model directory, which must not exist. Written whole or not at all.
    allow_nonfinite: import weights that are NaN or infinite; they are named, and refused otherwise.
    progress: called with the bytes read so far and in all; checksums at the end are as many again.
    note: called with each sentence on what was assumed; by default they go to stderr.

  Returns:
    The model's configuration.

  Raises:
    CheckpointError: see `prepare`; or a weight is damaged, or not finite.
    OutputError: the model directory exists, another process writes it, or the disk refuses.
  """
  source = prepare(path, checkpoint_format, vocabulary=vocabulary, gin_file=gin_file, storage=storage,
                   extra_ids=extra_ids, activation=activation, ignore=ignore)
  reader = source.reader
  sizes = {name: storage_lib.num_bytes(leaf.shape, leaf.dtype) for name, leaf in reader.leaves.items()}
  done, total = 0, sum(sizes.values())
  with new_model_directory(output) as directory:
    for sentence in source.assumed:
      note(sentence)
    reader.check_copies()
    with storage_lib.Writer(directory / WEIGHTS, source.storage) as writer:
      for name in reader.leaves:
        value = reader.read(name)
        check_finite(name, value, reader.source, note if allow_nonfinite else None)
        writer.add(name, value)
        done += sizes[name]
        progress(done, 2 * total)
    write_description(directory, source.config, source.storage, source.vocabulary)
    checksums.seal(directory, lambda part, whole: progress(total + total * part // max(whole, 1), 2 * total))
  return source.config
