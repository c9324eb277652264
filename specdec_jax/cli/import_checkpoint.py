"""The subcommand `import`, and scripts/import_checkpoint.py: a T5X or Hugging Face checkpoint to a model directory."""

import tqdm
from absl import flags

from specdec_jax.checkpoints import importer
from specdec_jax.cli import command
from specdec_jax.cli.checkpoint_flags import DTYPE, FORMAT, INPUT, OUTPUT, required
from specdec_jax.models.activations import ACTIVATIONS

_VOCABULARY = flags.DEFINE_string(
    'vocabulary', None, "SentencePiece file, tokenizer.json or another of a tokenizer's files, or 'bytes' for ByT5's; "
    "default: the checkpoint's own, if any.")
_GIN_FILE = flags.DEFINE_string(
    'gin_file', None, 'Sets fields of T5Config, such as gin/models/t5_1_1_xxl.gin.')
_EXTRA_IDS = flags.DEFINE_integer(
    'extra_ids', None, "Sentinels after the SentencePiece file's pieces; default: as tokenizer_config.json beside it "
    "says, else T5's and mT5's 100 and UMT5's 300 for files of their size, and transformers' 100 for a T5 tokenizer of "
    'its own, where the model has rows for them.',
    lower_bound=0)
_ACTIVATION = flags.DEFINE_enum(
    'activation', None, tuple(ACTIVATIONS), 'Of the feed-forward layers of a T5X checkpoint, which does not say it; '
    'default: gelu, or relu where they are not gated.')
_IGNORE = flags.DEFINE_list(
    'ignore', [], 'Settings of generation_config.json to pass over, such as no_repeat_ngram_size.')
_ALLOW_NONFINITE = flags.DEFINE_bool('allow_nonfinite', False, 'Import weights that are NaN or infinite.')


def run() -> None:
  checkpoint_format, source, output = (required(flag, 'an import') for flag in (FORMAT, INPUT, OUTPUT))
  with tqdm.tqdm(total=0, unit='B', unit_scale=True, desc='import', disable=None) as bar:
    def progress(done, total):
      bar.total = total
      bar.update(done - bar.n)

    config = importer.import_checkpoint(
        source, output, checkpoint_format, vocabulary=_VOCABULARY.value,
        gin_file=_GIN_FILE.value, storage=DTYPE.value, extra_ids=_EXTRA_IDS.value,
        activation=_ACTIVATION.value, ignore=_IGNORE.value, allow_nonfinite=_ALLOW_NONFINITE.value, progress=progress)
  print(f'{output}: {config}')


main = command.main(run)
