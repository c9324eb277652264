"""Opens a checkpoint of a named format, and says which one it looks like where that fails."""

import os

from etils import epath

from specdec_jax.checkpoints import huggingface, huggingface_gpt2, t5x
from specdec_jax.checkpoints.huggingface_files import read_json
from specdec_jax.checkpoints.readers import Reader, unscanned
from specdec_jax.errors import CheckpointError
from specdec_jax.files.locations import existing_directory


def _open_huggingface(directory: epath.Path) -> Reader:
  gpt2 = read_json(directory / 'config.json').get('model_type') == 'gpt2'
  return (huggingface_gpt2.GPT2Reader if gpt2 else huggingface.HuggingFaceReader)(directory)


_OPEN = {'t5x': t5x.open_native, 't5x_orbax': t5x.open_orbax, 'huggingface': _open_huggingface}
FORMATS = tuple(_OPEN)


def open_checkpoint(path: str | os.PathLike, checkpoint_format: str) -> Reader:
  """Opens a checkpoint; a scanned tree is read as one without scanning.

  Raises:
    CheckpointError: not there, damaged, or of another format (which is named).
  """
  directory = existing_directory(path)
  found = guess_format(directory)
  if found is None:
    raise CheckpointError(f"'{directory}' holds no checkpoint" + _nearby(directory) + '.')
  if found != checkpoint_format:
    mend = f'use --format={found}' if found in _OPEN else 'name another input'
    raise CheckpointError(f"'{directory}' is not of the format {checkpoint_format} "
                          f'but looks like {_NAMES[found]}; {mend}.')
  return unscanned(_OPEN[checkpoint_format](directory))


_NAMES = {
    't5x': "T5X's own format", 't5x_orbax': "T5X's Orbax format",
    'huggingface': 'a Hugging Face checkpoint',
    'model': 'a model directory of this project, which needs no import',
    'tensorflow': "a TensorFlow checkpoint (T5X's convert_tf_checkpoint script converts it)",
}


def guess_format(directory: epath.Path) -> str | None:
  """One of `FORMATS`, 'model' or 'tensorflow'; None where nothing is recognised."""
  for state in (directory / 'state', directory):
    if (state / '_METADATA').exists() or (state / 'manifest.ocdbt').exists():
      return 't5x_orbax'
    if (state / 'checkpoint').is_file():
      with (state / 'checkpoint').open('rb') as f:
        if f.read(21) == b'model_checkpoint_path':
          return 'tensorflow'
      return 't5x' if 'optimizer' in t5x.read_index(state) else 't5x_orbax'
  names = {p.name for p in directory.iterdir()}
  if {'weights', 'config.json'} <= names:
    return 'model'
  if any(n.endswith(('.safetensors', '.safetensors.index.json', '.bin')) for n in names):
    return 'huggingface'
  if any(n.startswith('model.ckpt') for n in names):
    return 'tensorflow'
  return None


def _nearby(directory: epath.Path) -> str:
  """Names up to three checkpoints inside or above a directory that is none itself."""
  inside = [p for p in sorted(directory.iterdir()) if p.is_dir() and guess_format(p) is not None]
  if inside:
    return '; one of these does: ' + ', '.join(f"'{p}'" for p in inside[:3])
  above = directory.parent
  return f"; '{above}' does" if guess_format(above) in FORMATS else ''
