"""The msgpack file `checkpoint`: T5X's own index, and that of Orbax before _METADATA."""

from etils import epath

from specdec_jax.errors import CheckpointError
from specdec_jax.files.reading import opened, read_bytes

NAME = 'checkpoint'
_MOST_BYTES = 1 << 30  # with small leaves inside; megabytes are usual
_TENSORFLOW = b'model_checkpoint_path'


def read_index(directory: epath.Path) -> dict:
  """The index as nested dictionaries."""
  from flax import serialization
  content = read_bytes(directory / NAME, 'T5X index', _MOST_BYTES, CheckpointError)
  if content.startswith(_TENSORFLOW):
    raise CheckpointError(f"'{directory}' is a TensorFlow checkpoint; convert it with T5X's "
                          'convert_tf_checkpoint script first.')
  try:
    index = serialization.msgpack_restore(content)
    if not isinstance(index, dict):
      raise ValueError('not a dictionary')
    return index
  except Exception as e:  # msgpack has many kinds for damaged input
    raise CheckpointError(f"'{directory / NAME}' is truncated or no T5X index; copy the checkpoint again.") from e


def is_tensorflow(directory: epath.Path) -> bool:
  """Whether `checkpoint` is TensorFlow's file of that name."""
  with opened(directory / NAME, 'T5X index', CheckpointError) as f:
    return f.read(len(_TENSORFLOW)) == _TENSORFLOW


def state_directory(directory: epath.Path, *markers: str) -> epath.Path:
  """The directory itself or its item `state/`, whichever has one of the marker files."""
  for candidate in (directory / 'state', directory):
    if any((candidate / marker).exists() for marker in markers):
      return candidate
  raise CheckpointError(f"'{directory}' has no file '{markers[0]}'.")
