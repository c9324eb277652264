"""Types and ranges of a configuration's fields: each mistake in one line that names the field."""

from collections.abc import Callable
from typing import Any

from specdec_jax import checks
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import SettingError
from specdec_jax.models.activations import ACTIVATIONS

Check = Callable[[str, Any], Any]  # of a field's name and value: the value as it is kept, or SettingError

DTYPES = ('float32', 'bfloat16')
ENCODER_ATTENTIONS = ('full', 'local', 'transient_global')
# Far above any model that is known, and such that everything that depends on them still takes seconds.
MOST_LAYERS, MOST_WIDTH, MOST_ROWS, MOST_POSITIONS = 1_000, 1 << 20, 1 << 24, 1 << 24


def between(least: int, most: int) -> Check:
  return lambda name, value: checks.whole(name, value, least, most)


rows, width, layers = between(1, MOST_ROWS), between(1, MOST_WIDTH), between(1, MOST_LAYERS)
rate: Check = lambda name, value: checks.real(name, value, lambda x: 0 <= x < 1, 'of at least 0 and below 1')
epsilon: Check = lambda name, value: checks.real(name, value, lambda x: 0 < x < 1, 'above 0 and below 1')
activation: Check = lambda name, value: checks.choice(name, value, ACTIVATIONS)
encoder_attention: Check = lambda name, value: checks.choice(name, value, ENCODER_ATTENTIONS)
activations: Check = lambda name, value: checks.sequence(name, value, activation)


def dtype(name: str, value: Any) -> str:
  if value == 'float16':
    raise SettingError(f"{name} is 'float16', which overflows in the feed-forward layers of T5 v1.1; use 'float32' or "
                       "'bfloat16'.")
  return checks.choice(name, value, DTYPES)


def numbers(config: Any) -> str:
  """What a configuration's weights and activations are, in words."""
  return f'{config.dtype}, int8 weights' if config.int8_weights else config.dtype


def num_buckets(name: str, value: Any) -> int:
  """Half of them for either direction, and half of those for exact distances."""
  value = checks.whole(name, value, 4, MOST_WIDTH)
  if value % 2:
    raise SettingError(f'{name} is {value}; it must be even, half for keys on either side.')
  return value


def check_fields(config: Any, fields: dict[str, Check]) -> None:
  """Checks a frozen dataclass's fields and keeps each value as its check returns it."""
  for name, check in fields.items():
    object.__setattr__(config, name, check(f'{type(config).__name__}.{name}', getattr(config, name)))


def set_eos(config: Any, default: int) -> None:
  """Makes eos_id and eos_ids agree where one of them is given; SettingError where they contradict each other."""
  kind = type(config).__name__
  ids = checks.wholes(f'{kind}.eos_ids', config.eos_ids, 0, empty=True)
  if config.eos_id is not None:
    eos_id = checks.whole(f'{kind}.eos_id', config.eos_id, 0, hint=' (several go into eos_ids)')
  else:
    eos_id = ids[0] if ids else default
  if len(ids) < 2:
    ids = (eos_id,)  # what `dataclasses.replace(config, eos_id=...)` leaves of a single one
  if ids[0] != eos_id:
    raise SettingError(f'{kind}.eos_id is {eos_id}, but eos_ids are {ids}: eos_id must be the first of them; give '
                       'both.')
  if len(set(ids)) < len(ids):
    raise SettingError(f'{kind}.eos_ids are {ids}; each must be there once.')
  object.__setattr__(config, 'eos_id', eos_id)
  object.__setattr__(config, 'eos_ids', ids)


def check_ids(config: Any, fed: tuple[str, ...]) -> None:
  """Special ids are ids that the model has, and those that end a text can be decoded.

  Args:
    config: with vocab_size, num_pieces and eos_ids.
    fed: fields whose ids are only fed to the model or compared with what is: any row of the table will do.
  """
  kind = type(config).__name__
  if config.num_pieces > config.vocab_size:
    raise SettingError(f'The vocabulary has {config.num_pieces} pieces but the model only {config.vocab_size} rows; '
                       'this is not the vocabulary of this model.')
  for name in fed:
    checks.whole(f'{kind}.{name}', getattr(config, name), 0, config.vocab_size - 1,
                 hint=f', an id of the {config.vocab_size} rows of the vocabulary')
  check_eos(kind, config.eos_ids, config.num_pieces or config.vocab_size)


def check_eos(kind: str, eos_ids: tuple[int, ...], num_tokens: int) -> None:
  """SettingError where an id that ends texts is none of those that are decoded: 0 to num_tokens - 1."""
  for eos_id in eos_ids:
    if eos_id >= num_tokens:
      raise SettingError(f'{kind}.eos_id{"s have" if len(eos_ids) > 1 else " is"} {eos_id}, but only ids 0 to '
                         f'{num_tokens - 1} are decoded, so that it could end no text; set eos_id to the id of the '
                         "vocabulary's end of text.")


def only_padding_apart(rows: int, other_rows: int) -> bool:
  """Whether two tables of logits may be of one vocabulary: they are padded to a multiple of 128 rows, or not at all."""
  return abs(rows - other_rows) < 128


def eos_difference(config: Any, vocabulary: Tokenizer | None) -> str | None:
  """A sentence for the user where a vocabulary's end of text is none of the configuration's; None where it is."""
  if vocabulary is None or vocabulary.eos_id in config.eos_ids:
    return None
  named = lambda ids: ' or '.join(f'{i} ({vocabulary.piece(i)!r})' for i in ids)
  return (f'The configuration ends texts with {named(config.eos_ids)}, the vocabulary with '
          f'{named([vocabulary.eos_id])}: decoding ends as the configuration says; set eos_id in a gin file if that '
          'is wrong.')
