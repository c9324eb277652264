"""The subcommand `import`, and scripts/import_checkpoint.py: a T5X or Hugging Face checkpoint to a model directory."""

import tqdm
from absl import flags

from specdec_jax.checkpoints import formats, importer, storage
from specdec_jax.cli import command

_FORMAT = flags.DEFINE_enum('format', None, formats.FORMATS, 'What wrote the checkpoint.', required=True)
_INPUT = flags.DEFINE_string('input', None, 'Directory of the checkpoint, local or gs://.', required=True)
_OUTPUT = flags.DEFINE_string('output', None, 'Model directory to write; must not exist.', required=True)
_VOCABULARY = flags.DEFINE_string(
    'vocabulary', None, "SentencePiece file; default: the checkpoint's own spiece.model, if any.")
_GIN_FILE = flags.DEFINE_string(
    'gin_file', None, 'Sets fields of T5Config, such as gin/models/t5_1_1_xxl.gin.')
_DTYPE = flags.DEFINE_enum(
    'dtype', None, storage.STORAGES,
    'How matrices are stored (bfloat16: computed in, too); default: as in the checkpoint.')
_EXTRA_IDS = flags.DEFINE_integer(
    'extra_ids', None, "Sentinels beyond the SentencePiece file's pieces; default: T5's 100, "
    "mT5's 100 and UMT5's 300 for their own files, else 0.", lower_bound=0)


def run():
  with tqdm.tqdm(total=0, unit='B', unit_scale=True, desc='import', disable=None) as bar:
    def progress(done, total):
      bar.total = total
      bar.update(done - bar.n)

    config = importer.import_checkpoint(
        _INPUT.value, _OUTPUT.value, _FORMAT.value, vocabulary=_VOCABULARY.value,
        gin_file=_GIN_FILE.value, storage=_DTYPE.value, extra_ids=_EXTRA_IDS.value,
        progress=progress)
  print(f'{_OUTPUT.value}: {config}')


main = command.main('import_checkpoint', run)
