"""Names of the Hugging Face hub, such as google/flan-t5-small: downloaded where huggingface_hub is installed."""

import re

from specdec_jax.checkpoints.huggingface import tokenizer
from specdec_jax.checkpoints.storage import first_line
from specdec_jax.errors import CheckpointError

_NAME = re.compile(r'[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*')
_VOCABULARY = (*tokenizer.FILES, 'merges.txt')
_CONFIGURATION = ('config.json', 'generation_config.json', tokenizer.CONFIG, tokenizer.ADDED, tokenizer.SPECIAL)
_SAFETENSORS = re.compile(r'model(-\d+-of-\d+)?\.safetensors(\.index\.json)?')
_MSGPACK = re.compile(r'flax_model(-\d+-of-\d+)?\.msgpack(\.index\.json)?')
_BIN = re.compile(r'pytorch_model(-\d+-of-\d+)?\.bin(\.index\.json)?')


def is_name(path: str) -> bool:
  """Whether a path that leads nowhere may be a name of the hub: OWNER/MODEL."""
  return bool(_NAME.fullmatch(path))


def download(name: str) -> str:
  """Brings what an import reads of a model to the hub's folder on this machine.

  Args:
    name: OWNER/MODEL.

  Returns:
    The directory.

  Raises:
    CheckpointError: huggingface_hub is not installed (the commands are named), or the hub does not give the model.
  """
  try:
    import huggingface_hub
  except ImportError:
    folder = name.split('/')[1]
    raise CheckpointError(
        f"There is no directory '{name}'. If it is a model of the Hugging Face hub: pip install huggingface_hub, and "
        f'run the same again; or hf download {name} --local-dir {folder}, and give --input={folder}.') from None
  try:
    files = _wanted(huggingface_hub.HfApi().list_repo_files(name))
    return huggingface_hub.snapshot_download(name, allow_patterns=files)
  except Exception as e:  # the library and what it stands on have many kinds
    raise CheckpointError(f"There is no directory '{name}', and the Hugging Face hub gives no model of that name "
                          f'({first_line(e)}).') from e


def _wanted(names: list[str]) -> list[str]:
  """The files that an import reads: weights of one kind, configuration and vocabulary."""
  weights: list[str] = next(filter(None, (
      [n for n in names if kind.fullmatch(n)] for kind in (_SAFETENSORS, _BIN, _MSGPACK))), [])
  return weights + [n for n in names if n in _VOCABULARY + _CONFIGURATION]
