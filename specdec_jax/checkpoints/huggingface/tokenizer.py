"""The tokenizer of a Hugging Face checkpoint, of whichever files it has, such that it encodes as transformers does."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from etils import epath

from specdec_jax.checkpoints import conventions
from specdec_jax.checkpoints.description import Config, Tokenizer
from specdec_jax.checkpoints.huggingface.fields import Fields
from specdec_jax.checks import shown
from specdec_jax.data import tokenizers_making as making
from specdec_jax.data.byte_vocabulary import BYT5_EXTRA_IDS, BYTES, NAME, ByteVocabulary
from specdec_jax.data.tokenizers_vocabulary import TokenizersVocabulary
from specdec_jax.data.vocabulary import MOST_BYTES, Vocabulary
from specdec_jax.errors import CheckpointError, SettingError, UserError
from specdec_jax.files import json_files
from specdec_jax.files.reading import read_bytes, read_text

CONFIG, ADDED, SPECIAL = 'tokenizer_config.json', 'added_tokens.json', 'special_tokens_map.json'
# Of several, the first is read, as by transformers.
_SENTENCEPIECE = ('spiece.model', 'tokenizer.model', 'sentencepiece.model')
FILES = ('tokenizer.json', *_SENTENCEPIECE, 'vocab.json', 'vocab.txt')
_NAMED = ('bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token')
_LISTS = ('additional_special_tokens', 'extra_special_tokens')


@dataclasses.dataclass(frozen=True)
class Found:
  """A vocabulary, how many ids of a model are of it, and sentences on what was assumed."""

  vocabulary: Tokenizer
  num_pieces: int
  notes: list[str]


def find(directory: epath.Path, config: Config, eos_id: int | None, extra_ids: int | None = None) -> Found | None:
  """The tokenizer that lies in a directory; None where there is none."""
  for name in FILES:
    if (directory / name).exists():
      return read(directory / name, config, eos_id, extra_ids)
  if (directory / CONFIG).exists() and _kind(_settings(directory)) == 'ByT5Tokenizer':
    return read(directory / NAME, config, eos_id, extra_ids)
  return None


def read(file: epath.Path, config: Config, eos_id: int | None, extra_ids: int | None = None) -> Found:
  """The tokenizer of a file, with the settings and added tokens that lie beside it.

  Args:
    file: of any of `FILES`; 'bytes' for ByT5's vocabulary, which has none.
    config: with the rows of the model.
    eos_id: of the model, where its files say it.
    extra_ids: sentinels after a SentencePiece file's pieces or the bytes, where the user gives it.

  Raises:
    CheckpointError: a file that is missing or damaged, or tokens whose ids cannot be.
  """
  try:
    settings = _settings(file.parent)
    if file.name == NAME:
      return _bytes(file.parent, settings, config, extra_ids)
    if file.suffix not in ('.json', '.txt'):
      return _sentencepiece(file, settings, config, eos_id, extra_ids)
    if extra_ids is not None:
      raise SettingError(f"extra_ids is for SentencePiece files; '{file}' names its sentinels itself.")
    if config.decoder_only:
      found = TokenizersVocabulary(file, eos_id)
      return Found(found, found.size, conventions.padding(config, found))
    spiece = next((file.parent / n for n in _SENTENCEPIECE if (file.parent / n).exists()), None)
    return _made(_open(file, settings), file, settings, config, eos_id,
                 None if spiece is None else read_bytes(spiece, 'SentencePiece file', MOST_BYTES))
  except SettingError:
    raise
  except UserError as e:
    raise CheckpointError(str(e)) from e


def _settings(directory: epath.Path) -> Fields:
  """tokenizer_config.json, and special_tokens_map.json where it says nothing."""
  content: dict[str, Any] = {}
  for name in (SPECIAL, CONFIG):
    if (directory / name).exists():
      content |= json_files.read_json(directory / name, 'configuration')
  if 'tokenizer_class' not in content and (directory / 'config.json').exists():
    content['tokenizer_class'] = json_files.read_json(directory / 'config.json').get('tokenizer_class')
  return Fields(directory / CONFIG, content)


def _kind(settings: Fields) -> str:
  """The tokenizer's class in transformers; '' where it is not said."""
  return settings.text('tokenizer_class', '').removesuffix('Fast') if 'tokenizer_class' in settings else ''


def _open(file: epath.Path, settings: Fields) -> Any:
  """A file of the tokenizers library, or of what makes one of its tokenizers."""
  import tokenizers
  content = read_text(file, 'tokenizer file', MOST_BYTES)
  with making.reading(file, 'is not a file of the tokenizers library'):
    if file.name == 'vocab.txt':
      accents = settings.flag('strip_accents', False) if 'strip_accents' in settings else None
      return making.bert(content, settings.flag('do_lower_case', True),
                         settings.flag('tokenize_chinese_chars', True), accents)
    if file.name == 'vocab.json':
      merges = read_text(file.parent / 'merges.txt', 'merges.txt (which vocab.json needs beside it)', MOST_BYTES)
      vocab = json_files.parse(content.encode(), f"'{file}'")
      return making.roberta(vocab, merges, settings.flag('add_prefix_space', False))
    return tokenizers.Tokenizer.from_str(content)


def _sentencepiece(file: epath.Path, settings: Fields, config: Config, eos_id: int | None,
                   extra_ids: int | None) -> Found:
  plain = Vocabulary(file)
  kind, tokens = _kind(settings), list(_tokens(file.parent, settings))
  of_t5 = kind == 'T5Tokenizer' or (not kind and file.name != 'tokenizer.model')
  given_names = not of_t5 and any(making.SENTINEL.fullmatch(text) for _, text, _ in tokens)
  if extra_ids is None and given_names:
    extra_ids = 0  # they have ids of their own there
  num, told = conventions.num_pieces(config, plain, extra_ids, conventions.OF_TRANSFORMERS if of_t5 else 0)
  renamed = {i: text for i, text, _ in tokens if i is not None and i < plain.size}
  legacy = settings.flag('legacy', kind != 'LlamaTokenizer' or getattr(config, 'relative_bias_per_layer', False))
  with making.reading(file, 'cannot be made a tokenizer'):
    made = making.of_sentencepiece(plain.model_bytes, num - plain.size, legacy,
                                   settings.flag('add_prefix_space', True), renamed)
    _end(made, plain, settings)
  found = _made(made, file, settings, config, eos_id, plain.model_bytes)
  return dataclasses.replace(found, notes=told if found.num_pieces == num else found.notes)


def of_vocabulary(vocabulary: Vocabulary) -> TokenizersVocabulary:
  """What transformers needs of a SentencePiece file with sentinels."""
  made = making.of_sentencepiece(vocabulary.model_bytes, vocabulary.extra_ids)
  _end(made, vocabulary, Fields(CONFIG, {}))
  return TokenizersVocabulary.of(made, vocabulary.path, encoder=True)


def _end(made: Any, plain: Vocabulary, settings: Fields) -> None:
  """An encoder's input ends in EOS, and begins as the settings say."""
  from tokenizers import processors
  eos = plain.piece(plain.eos_id)
  bos = _text(settings.get('bos_token')) or '<s>'
  before = bos if settings.flag('add_bos_token', False) and made.token_to_id(bos) is not None else None
  made.post_processor = processors.TemplateProcessing(
      single=f'{before} $A {eos}' if before else f'$A {eos}',
      special_tokens=[(eos, plain.eos_id), *([(before, made.token_to_id(before))] if before else [])])


def _made(made: Any, file: epath.Path, settings: Fields, config: Config, eos_id: int | None,
          spiece: bytes | None) -> Found:
  """Adds the tokens that lie beside a tokenizer to it."""
  import tokenizers
  known = {token.content for token in made.get_added_tokens_decoder().values()}
  for token, text, flags in _tokens(file.parent, settings):
    there = made.token_to_id(text)
    if text in known or (there is None and token is None and made.get_vocab_size() >= config.vocab_size):
      continue
    special = flags.pop('special', True)
    flags.setdefault('normalized', not special)
    with making.reading(file, f'takes no token {shown(text)}'):
      (made.add_special_tokens if special else made.add_tokens)([tokenizers.AddedToken(text, **flags)])
    if there is None and token is not None and made.token_to_id(text) != token:
      raise settings.error(f'the added token {shown(text)} has the id {token}, but the next one of {shown(file.name)} '
                           f'is {made.token_to_id(text)}')
  stated = settings.get('eos_token')
  named = made.token_to_id(_text(stated) or '') if stated is not None else None
  found = TokenizersVocabulary.of(made, str(file), named if eos_id is None else eos_id, True, spiece)
  return Found(found, found.size, conventions.padding(config, found))


def _tokens(directory: epath.Path, settings: Fields) -> Iterator[tuple[int | None, str, dict[str, Any]]]:
  """Tokens that settings and added_tokens.json name: ids (None: the next one), texts, flags of `AddedToken`."""
  by_id: dict[int, tuple[str, dict[str, Any]]] = {}
  if (directory / ADDED).exists():
    for text, token in json_files.read_json(directory / ADDED).items():
      if type(token) is not int or token < 0 or not text:
        raise CheckpointError(f"'{directory / ADDED}': the id of {shown(text)} is {shown(token)}; it must be a whole "
                              'number of at least 0.')
      by_id[token] = text, {'special': False}
  decoder = settings.get('added_tokens_decoder') or {}
  if not isinstance(decoder, dict) or not all(str(token).isdecimal() for token in decoder):
    raise settings.error('added_tokens_decoder must be an object with ids as its names')
  for key, value in decoder.items():
    by_id[int(key)] = _token(settings, 'added_tokens_decoder', value, False)
  yield from ((token, *by_id[token]) for token in sorted(by_id))
  for name in _NAMED:
    if name in settings:
      yield (None, *_token(settings, name, settings.get(name), True))
  for name in _LISTS:
    listed = settings.get(name) or []
    if not isinstance(listed, list | dict):
      raise settings.error(f'{name} is {shown(listed)}; it must be a list of tokens')
    for value in listed if isinstance(listed, list) else listed.values():
      yield (None, *_token(settings, name, value, True))


def _token(settings: Fields, name: str, value: Any, special: bool) -> tuple[str, dict[str, Any]]:
  flags = ('lstrip', 'rstrip', 'normalized', 'single_word', 'special')
  text, said = _text(value), {k: v for k, v in value.items() if k in flags} if isinstance(value, dict) else {}
  if not text or not all(isinstance(v, bool) for v in said.values()):
    raise settings.error(f'{name} has {shown(value)}, which is no token')
  return text, {'special': special, **said}


def _text(value: Any) -> str | None:
  """Of a token, which is a text or an object with its text as `content`."""
  found = value.get('content') if isinstance(value, dict) else value
  return found if isinstance(found, str) else None


def _bytes(directory: epath.Path, settings: Fields, config: Config, extra_ids: int | None) -> Found:
  named = {text: token for token, text, _ in _tokens(directory, settings) if token is not None and token >= BYTES}
  listed = sum(making.SENTINEL.fullmatch(text) is not None for text in named)
  if extra_ids is None:
    extra_ids = listed or min(settings.whole('extra_ids', BYT5_EXTRA_IDS, 0), max(config.vocab_size - BYTES, 0))
  found = ByteVocabulary(extra_ids, {text: token for text, token in named.items() if token >= BYTES + extra_ids})
  return Found(found, found.size, conventions.padding(config, found))
