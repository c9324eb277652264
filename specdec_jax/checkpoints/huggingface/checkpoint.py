"""Opens a Hugging Face checkpoint of any family that is known here."""

from collections.abc import Sequence
from typing import Any

from etils import epath

from specdec_jax.checkpoints.huggingface import gpt2, t5
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checkpoints.readers import Reader
from specdec_jax.checks import shown
from specdec_jax.files import json_files

_FAMILIES = {**dict.fromkeys(t5.MODEL_TYPES, (t5.T5Reader, t5.ALIASES)), 'gpt2': (gpt2.GPT2Reader, gpt2.ALIASES)}


def open_huggingface(directory: epath.Path, ignore: Sequence[str] = ()) -> Reader:
  """Opens the checkpoint in a directory.

  Args:
    directory: with config.json and weights.
    ignore: settings of generation_config.json to pass over; see `generation.notes`.

  Raises:
    CheckpointError: a file that is missing or damaged, another family, or a variant that is not known here.
  """
  path = directory / 'config.json'
  content = json_files.read_json(path, 'configuration')
  kind = content.get('model_type')
  family: Any = _FAMILIES.get(kind, (None, None)) if isinstance(kind, str) else (None, None)
  reader, aliases = family
  if reader is None:
    raise Fields(path, content).error(f'model_type is {shown(kind)}; known are {", ".join(_FAMILIES)}')
  return reader(directory, Fields(path, content, aliases), ignore)
