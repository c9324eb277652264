"""What an import takes for granted where a checkpoint does not say it, and the sentence that tells so."""

import re
from collections.abc import Collection
from typing import Any

from specdec_jax.checkpoints.description import Config, Tokenizer
from specdec_jax.checks import shown
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files
from specdec_jax.files.locations import absolute

_OF_T5X = ('mlp_activations', 'encoder_attention', 'local_radius', 'global_block_size', 'max_distance',
           'layer_norm_epsilon', 'decoder_start_id', 'eos_ids', 'pad_id')
# Sentinels that T5's, mT5's and UMT5's programs append to their SentencePiece files, by the files' pieces.
_SENTINELS = {32_000: 100, 250_000: 100, 256_000: 300}
_BYT5_ROWS = 384
OF_TRANSFORMERS = 100  # that its T5Tokenizer appends to a file where nothing says how many


def of_t5x(config: Config) -> frozenset[str]:
  """What neither names nor shapes of a T5X checkpoint tell."""
  long = getattr(config, 'encoder_attention', 'full') != 'full'
  return frozenset(_OF_T5X) - ({'encoder_attention'} if long else {'local_radius', 'global_block_size'})


def like_ul2(source: str) -> str:
  """Why an activation is asked for."""
  return (f"'{source}' has gated feed-forward layers and tied logits, as UL2 and Flan-UL2, whose activation is silu, "
          'and nothing in it says which it is: --activation=silu, or a gin file such as gin/models/ul2_20b.gin, says '
          'so.')


def padding_of_t5x(config: Config, stated: bool) -> list[str]:
  """A sentence where T5X's padding, always 0, is not the model's own or perhaps not."""
  if config.pad_id:
    return [f'T5X pads every model with 0; here padding is {config.pad_id}, so that an id 0 in an input (an unknown '
            'piece) is seen, as the model was defined, where T5X hides it.']
  if config.vocab_size == 256_000 and not stated:
    return ['256,000 rows are those of MADLAD-400, which pads with 1 and ends texts with 2; T5X pads with 0, and so '
            'does this model: an unknown piece, id 0 of that vocabulary, is hidden in inputs. '
            '--gin_file=gin/models/madlad400_3b.gin (7b, 10b) makes padding 1.']
  return []


def assumed(config: Config, fields: Collection[str]) -> list[str]:
  """A sentence on the fields that nothing gives."""
  names = [name for name in _OF_T5X if name in fields]
  if not names:
    return []
  values = ', '.join(f'{name} = {getattr(config, name)!r}' for name in names)
  mend = '--activation=NAME or a gin file says otherwise' if 'mlp_activations' in names else 'a gin file says otherwise'
  return [f'The checkpoint does not say these, and they are assumed: {values}; {mend}.']


def no_vocabulary(config: Config) -> str:
  """The sentence where there is no vocabulary."""
  kind = 'tokenizer.json' if config.decoder_only else 'SentencePiece file'
  bytes_too = " ByT5's is --vocabulary=bytes." if config.vocab_size == _BYT5_ROWS and not config.decoder_only else ''
  return (f'No vocabulary was found: nothing is masked, and texts can be neither given nor shown. Name a {kind} '
          f'with --vocabulary=FILE.{bytes_too}')


def num_pieces(config: Config, vocabulary: Vocabulary, extra_ids: int | None, usual: int = 0) -> tuple[int, list[str]]:
  """How many ids of a model are of its vocabulary, sentinels included, and the sentence on the others.

  Args:
    config: with the rows of the model.
    vocabulary: with the pieces of its SentencePiece file.
    extra_ids: sentinels after the pieces, where the user gives it; else tokenizer_config.json beside the file
      does, or what is known of files with so many pieces, as far as the model has rows for them.
    usual: sentinels after files that are not known.
  """
  pieces, rows = vocabulary.size, config.vocab_size
  extra, why = _SENTINELS.get(pieces, usual), 'assumed, --extra_ids=N says otherwise'
  if config.decoder_only or pieces + extra > rows:
    extra = 0
  if extra_ids is not None:
    extra, why = extra_ids, 'as --extra_ids says'
  elif (stated := _stated_extra_ids(vocabulary.path, rows - pieces)) is not None:
    extra, why = stated, 'as tokenizer_config.json beside it says'
  rest = rows - pieces - extra
  if rest < 0 or not (rest or extra):
    return pieces + extra, []  # the configuration refuses more than there are rows
  return pieces + extra, [f"The vocabulary '{vocabulary.path}' has {pieces} pieces, and {extra} sentinels after them "
                          f'({why}); the last {rest} of {rows} rows are padding, which is never decoded.']


def padding(config: Config, vocabulary: Tokenizer) -> list[str]:
  """The sentence on the rows of a model that are of no id of a vocabulary which names all of its own."""
  rest = config.vocab_size - vocabulary.size
  return [f"The vocabulary '{vocabulary.path}' has {vocabulary.size} ids; the last {rest} of {config.vocab_size} rows "
          'are padding, which is never decoded.'] if rest > 0 else []


def end_of_text(vocabulary: Tokenizer) -> str:
  """The sentence where a configuration names no EOS and its vocabulary does."""
  return (f"The configuration names no id that ends a text: the vocabulary's is taken, {vocabulary.eos_id} "
          f'({vocabulary.piece(vocabulary.eos_id)!r}); a gin file says otherwise.')


def _stated_extra_ids(path: str, room: int) -> int | None:
  """What tokenizer_config.json beside a vocabulary says of sentinels; None where it says nothing.

  It may list them by name, also where they are among the pieces: such a list counts only where there is room.
  """
  file = absolute(path).parent / 'tokenizer_config.json'
  if not file.exists():
    return None
  fields = json_files.read_json(file, 'configuration')
  extra = fields.get('extra_ids')
  if extra is None:
    listed = len(_sentinels(fields.get('additional_special_tokens')))
    return listed if 0 < listed <= room else None
  if type(extra) is not int or extra < 0:
    raise CheckpointError(f"'{file}': extra_ids is {shown(extra)}; it must be a whole number of at least 0.")
  return extra


def _sentinels(tokens: Any) -> list[str]:
  """The sentinels in a list of tokens, which are texts or objects with their text as `content`."""
  texts = [t.get('content') if isinstance(t, dict) else t for t in tokens] if isinstance(tokens, list) else []
  return [t for t in texts if isinstance(t, str) and re.fullmatch(r'<extra_id_\d+>', t)]
