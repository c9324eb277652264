"""How transformers decodes a checkpoint: generation_config.json, or what config.json says where that is not there."""

import dataclasses
from collections.abc import Sequence

from etils import epath

from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checks import shown
from specdec_jax.errors import SettingError

FILE = 'generation_config.json'

# Settings that a decode has here too, with the values that do nothing: reported, since they are no part of a model.
_OF_A_DECODE = {
    'num_beams': (1,), 'num_return_sequences': (1,), 'length_penalty': (1,), 'early_stopping': (False,),
    'max_length': (20,), 'max_new_tokens': (), 'min_length': (0,), 'min_new_tokens': (0,), 'do_sample': (False,),
    'repetition_penalty': (1,), 'suppress_tokens': ([],)}
_OF_SAMPLING = {'temperature': (1,), 'top_k': (0, 50), 'top_p': (1,)}
# Settings that change texts and have no counterpart here: refused, unless they are to be ignored.
_UNKNOWN = {
    'no_repeat_ngram_size': (0,), 'encoder_no_repeat_ngram_size': (0,), 'encoder_repetition_penalty': (1,),
    'bad_words_ids': ([],), 'forced_bos_token_id': (), 'forced_eos_token_id': (), 'forced_decoder_ids': ([],),
    'begin_suppress_tokens': ([],), 'sequence_bias': ({}, []), 'exponential_decay_length_penalty': (),
    'guidance_scale': (1,), 'watermarking_config': (), 'stop_strings': ([],), 'penalty_alpha': (0,), 'dola_layers': (),
    'diversity_penalty': (0,), 'num_beam_groups': (1,), 'constraints': ([],), 'force_words_ids': ([],),
    'token_healing': (False,)}
_UNKNOWN_IN_SAMPLING = {'min_p': (0,), 'top_h': (), 'typical_p': (1,), 'epsilon_cutoff': (0,), 'eta_cutoff': (0,)}


@dataclasses.dataclass(frozen=True)
class Ids:
  """The special ids that transformers decodes with; None or empty where the files name none."""

  start: int | None
  eos: tuple[int, ...]
  pad: int | None


def read(directory: epath.Path, config: Fields) -> Fields:
  """The fields that count: of generation_config.json, or of config.json where there is no such file."""
  path = directory / FILE
  return Fields.read(path) if path.exists() else config


def ids(fields: Fields, vocab_size: int) -> Ids:
  """The special ids; a start that is not named is the id for the beginning of a text, as in transformers."""
  start = fields.token('decoder_start_token_id', vocab_size)
  if start is None:
    start = fields.token('bos_token_id', vocab_size)
  return Ids(start, fields.tokens('eos_token_id', vocab_size), fields.token('pad_token_id', vocab_size))


def notes(fields: Fields, ignore: Sequence[str] = ()) -> list[str]:
  """A line on the settings of a decode.

  Args:
    fields: of the file that counts.
    ignore: names of settings that are to be passed over.

  Raises:
    CheckpointError: a setting that changes texts and has no counterpart here.
    SettingError: a name in `ignore` that no file sets.
  """
  sampled = fields.get('do_sample') is True
  unknown = _set(fields, {**_UNKNOWN, **(_UNKNOWN_IN_SAMPLING if sampled else {})})
  needless = [name for name in ignore if name not in unknown]
  if needless:
    raise SettingError(f"ignore names {shown(needless[0])}, which is not among what '{fields.path}' sets and this "
                       f"program cannot do ({', '.join(unknown) or 'nothing'}); leave it out.")
  refused = [name for name in unknown if name not in ignore]
  if refused:
    name = refused[0]
    raise fields.error(f'{name} is {shown(fields.get(name))}, which changes the texts and is not known here; '
                       f'import the model without it by --ignore={",".join(refused)}')
  known = _set(fields, {**_OF_A_DECODE, **(_OF_SAMPLING if sampled else {})})
  told = [f"'{fields.path}' sets {_list(fields, known)}: settings of a decode, which a run is given here; they are no "
          'part of the model.'] if known else []
  return told + ([f"'{fields.path}' sets {_list(fields, ignore)}: ignored, as you asked."] if ignore else [])


def _set(fields: Fields, settings: dict[str, tuple]) -> list[str]:
  return [name for name, neutral in settings.items() if name in fields and fields.get(name) not in neutral]


def _list(fields: Fields, names: Sequence[str]) -> str:
  return ', '.join(f'{name} = {shown(fields.get(name))}' for name in names)
