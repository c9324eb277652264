"""Opens a checkpoint of a named format, and says which one it looks like where that fails."""

import os
from collections.abc import Callable, Sequence
from typing import Any

from etils import epath

from specdec_jax.checkpoints.huggingface.checkpoint import open_huggingface
from specdec_jax.checkpoints.readers import Reader, unscanned
from specdec_jax.checkpoints.t5x import index as t5x_index, native, orbax
from specdec_jax.checkpoints.t5x.flaxformer import Flaxformer
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.locations import existing_directory

# A format is added here: {its name: what opens a directory of it}; `guess_format` should know it too.
_OPEN: dict[str, Callable[[epath.Path], Any]] = {
    't5x': native.open_native, 't5x_orbax': orbax.open_orbax, 'huggingface': open_huggingface}
FORMATS = tuple(_OPEN)
T5X_FORMATS = ('t5x', 't5x_orbax')


def open_checkpoint(path: str | os.PathLike, checkpoint_format: str, ignore: Sequence[str] = ()) -> Reader:
  """Opens a checkpoint; a scanned tree is read as one without scanning, flaxformer's as one of T5X's own network.

  Args:
    path: its directory, local or gs://.
    checkpoint_format: one of `FORMATS`.
    ignore: settings of a Hugging Face checkpoint to pass over; see `generation.notes`.

  Raises:
    CheckpointError: not there, damaged, or of another format (which is named).
  """
  if checkpoint_format not in _OPEN:
    raise SettingError(f"format is {checkpoint_format!r}; use one of {', '.join(FORMATS)}.")
  directory = existing_directory(path)
  found = guess_format(directory)
  if found is None:
    folder = f" (its '{t5x_index.NAME}' is a directory)" if (directory / t5x_index.NAME).is_dir() else ''
    raise CheckpointError(f"'{directory}' holds no checkpoint{folder}{nearby(directory)}; name the directory of one.")
  if found != checkpoint_format:
    mend = f'use --format={found}' if found in _OPEN else 'name another input'
    raise CheckpointError(f"'{directory}' is not of the format {checkpoint_format} "
                          f'but looks like {NAMES[found]}; {mend}.')
  if checkpoint_format == 'huggingface':
    return open_huggingface(directory, ignore)
  if ignore:
    raise SettingError(f'ignore is for Hugging Face checkpoints; leave it out with {checkpoint_format}.')
  return Flaxformer(unscanned(_OPEN[checkpoint_format](directory)))


NAMES = {
    't5x': "T5X's own format", 't5x_orbax': "T5X's Orbax format",
    'huggingface': 'a Hugging Face checkpoint',
    'model': 'a model directory of this project, which needs no import',
    'tensorflow': "a TensorFlow checkpoint (T5X's convert_tf_checkpoint script converts it)",
}


def guess_format(directory: epath.Path) -> str | None:
  """One of `FORMATS`, 'model' or 'tensorflow'; None where nothing is recognised."""
  try:
    return _guess(directory)
  except OSError as e:
    raise CheckpointError(f"'{directory}' cannot be read: {e.strerror or e}.") from e


def _guess(directory: epath.Path) -> str | None:
  for state in (directory / 'state', directory):
    if (state / orbax.METADATA).exists() or (state / orbax.OCDBT).exists():
      return 't5x_orbax'
    if (state / t5x_index.NAME).exists() and not (state / t5x_index.NAME).is_dir():
      if t5x_index.is_tensorflow(state):
        return 'tensorflow'
      return _t5x_format(state)
  names = {p.name for p in directory.iterdir()}
  if {'weights', 'config.json'} <= names:
    return 'model'
  if any(n.endswith(('.safetensors', '.bin', '.msgpack', '.safetensors.index.json', '.msgpack.index.json'))
         for n in names):
    return 'huggingface'
  if any(n.startswith('model.ckpt') for n in names):
    return 'tensorflow'
  return None


def _t5x_format(directory: epath.Path) -> str:
  """Which program of T5X wrote an index."""
  index = t5x_index.read_index(directory)
  if 'optimizer' in index:
    return 't5x'
  if 'target' in index:
    return 't5x_orbax'
  raise CheckpointError(f"'{directory / t5x_index.NAME}' has neither 'optimizer', as in T5X's own format, nor "
                        "'target', as Orbax writes it; is it a T5X checkpoint?")


def nearby(directory: epath.Path) -> str:
  """Names up to three checkpoints inside or above a directory that is none itself."""
  inside = [p for p in sorted(directory.iterdir()) if p.is_dir() and _is_some(p)]
  if inside:
    return '; one of these does: ' + ', '.join(f"'{p}'" for p in inside[:3])
  above = directory.parent
  return f"; '{above}' does" if _is_some(above) else ''


def _is_some(directory: epath.Path) -> bool:
  """Whether a directory looks like a checkpoint, a damaged one perhaps; one that may not be read does not."""
  try:
    return _guess(directory) is not None
  except CheckpointError:
    return True
  except OSError:
    return False
