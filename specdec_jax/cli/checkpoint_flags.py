"""The flags that `import` and `export` share."""

from absl import flags

from specdec_jax.checkpoints import formats, storage
from specdec_jax.errors import SettingError

FORMAT = flags.DEFINE_enum('format', None, formats.FORMATS, 'Of the checkpoint.')
INPUT = flags.DEFINE_string(
    'input', None, 'What is read: a directory, local or gs://; of an import also OWNER/MODEL of the Hugging Face hub.')
OUTPUT = flags.DEFINE_string('output', None, 'Directory to write; must not exist.')
DTYPE = flags.DEFINE_enum(
    'dtype', None, storage.STORAGES,
    'How matrices are stored; of an import bfloat16 is computed in, too, and an export has no int8. Default: as they '
    'are.')


def required(flag: flags.FlagHolder[str | None], what: str) -> str:
  if not flag.value:
    raise SettingError(f'--{flag.name} is not given; {what} needs --format, --input and --output.')
  return flag.value
