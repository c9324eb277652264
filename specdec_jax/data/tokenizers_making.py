"""Tokenizers of the `tokenizers` library out of other programs' files, such that they encode as transformers' own."""

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from specdec_jax.errors import InputError, UserError

SPACE = '\u2581'
_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED = 1, 2, 3, 4  # kinds of SentencePiece's pieces
_BPE = 2  # SentencePiece's model_type
SENTINEL = re.compile(r'<extra_id_(\d+)>')


@contextlib.contextmanager
def reading(path: str | os.PathLike, what: str) -> Iterator[None]:
  """InputError for whatever the library raises, which is bare Exception, or a panic that is none."""
  try:
    yield
  except UserError:
    raise
  except BaseException as e:
    if not isinstance(e, Exception) and type(e).__name__ != 'PanicException':
      raise
    raise InputError(f"'{path}' {what} ({' '.join(str(e).split())[:200]}).") from e


def sentinel_names(count: int) -> list[str]:
  """T5's sentinels in the order of their ids: <extra_id_0> is the last."""
  return [f'<extra_id_{i}>' for i in reversed(range(count))]


def bare(piece: str) -> str:
  """A piece as every program spells it: SentencePiece files have a space before a sentinel."""
  return piece[1:] if piece.startswith(SPACE) and SENTINEL.fullmatch(piece, 1) else piece


def of_sentencepiece(content: bytes, sentinels: int = 0, legacy: bool = True, prefix_space: bool = True,
                     renamed: dict[int, str] | None = None) -> Any:
  """Of a SentencePiece file: T5's tokenizer, or Llama's where the file is BPE or falls back to bytes.

  Args:
    content: of the file.
    sentinels: after its pieces, in T5's order.
    legacy: a space is put before what follows a special token in a text too; of Llama's alone, T5's always does.
    prefix_space: a space is put before a text; of Llama's alone.
    renamed: {id: another name of the piece}.
  """
  from sentencepiece import sentencepiece_model_pb2
  format_of: Any = sentencepiece_model_pb2
  proto = format_of.ModelProto.FromString(content)
  names = [(renamed or {}).get(i, bare(p.piece)) for i, p in enumerate(proto.pieces)]
  kinds = [p.type for p in proto.pieces]
  pieces = [(name, p.score) for name, p in zip(names, proto.pieces)] + [(s, 0.0) for s in sentinel_names(sentinels)]
  own = [n for n, kind in zip(names, kinds) if kind == _USER_DEFINED and not SENTINEL.fullmatch(n)]
  if proto.trainer_spec.model_type == _BPE or proto.trainer_spec.byte_fallback:
    made = _llamas(proto, pieces, kinds, own, legacy, prefix_space and proto.normalizer_spec.add_dummy_prefix)
  else:
    made = _t5s(proto, pieces)
    made.add_tokens([_added(name) for name in own])
  special = [n for n, kind in zip(names, kinds) if kind in (_UNKNOWN, _CONTROL) or SENTINEL.fullmatch(n)]
  made.add_special_tokens([_added(name) for name in special + sentinel_names(sentinels)])
  return made


def _t5s(proto: Any, pieces: list[tuple[str, float]]) -> Any:
  import tokenizers
  from tokenizers import decoders, models, pre_tokenizers
  made = tokenizers.Tokenizer(models.Unigram(pieces, unk_id=proto.trainer_spec.unk_id, byte_fallback=False))
  made.normalizer = _charsmap(proto)
  space = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme='always', split=True)
  made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), space])
  made.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme='always', split=True)
  return made


def _llamas(proto: Any, pieces: list[tuple[str, float]], kinds: list[int], own: list[str], legacy: bool,
            prefix_space: bool) -> Any:
  """SentencePiece's own steps one by one; `own`: pieces that are always whole."""
  import tokenizers
  from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers
  trainer, spec = proto.trainer_spec, proto.normalizer_spec
  model: Any
  if trainer.model_type == _BPE:
    vocab = {name: i for i, (name, _) in enumerate(pieces)}
    model = models.BPE(vocab, _merges(pieces, kinds), unk_token=pieces[trainer.unk_id][0], fuse_unk=True,
                       byte_fallback=trainer.byte_fallback, ignore_merges=bool(own))
  else:
    model = models.Unigram(pieces, unk_id=trainer.unk_id, byte_fallback=True)
  made = tokenizers.Tokenizer(model)
  steps: list[Any] = [_charsmap(proto)] if spec.precompiled_charsmap else []
  if spec.remove_extra_whitespaces:
    steps += [normalizers.Replace(Regex(r'\A +| +\z'), ''), normalizers.Replace(Regex(' {2,}'), ' ')]
  if spec.escape_whitespaces:
    steps.append(normalizers.Replace(' ', SPACE))
  if legacy and prefix_space:  # a text that begins with a space has one more before it
    steps.append(normalizers.Replace(Regex(rf'\A{SPACE}'), 2 * SPACE))
  made.normalizer = normalizers.Sequence(steps)
  scheme: Any = ('always' if legacy else 'first') if prefix_space else 'never'
  splits: list[Any] = [pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)]
  if own:
    longest_first = '|'.join(re.escape(name) for name in sorted(own, key=len, reverse=True))
    splits.append(pre_tokenizers.Split(Regex(longest_first), behavior='isolated'))
  made.pre_tokenizer = pre_tokenizers.Sequence(splits)
  strip = [decoders.Strip(content=' ', left=1)] if prefix_space else []
  made.decoder = decoders.Sequence([decoders.Replace(SPACE, ' '), decoders.ByteFallback(), decoders.Fuse(), *strip])
  return made


def _charsmap(proto: Any) -> Any:
  """SentencePiece's normalization of characters; None where the file has none."""
  from tokenizers import normalizers
  content = proto.normalizer_spec.precompiled_charsmap
  return normalizers.Precompiled(content) if content else None


def _added(text: str) -> Any:
  import tokenizers
  return tokenizers.AddedToken(text, normalized=False)


def _merges(pieces: list[tuple[str, float]], kinds: list[int]) -> list[tuple[str, str]]:
  """The merges of a SentencePiece BPE, best first: a piece's score is the rank of what makes it."""
  ranks = {name: (-score, i) for i, ((name, score), kind) in enumerate(zip(pieces, kinds)) if kind == _NORMAL}
  found = [(rank, name[:at], name[at:]) for name, rank in ranks.items() for at in range(1, len(name))
           if name[:at] in ranks and name[at:] in ranks]
  return [(left, right) for _, left, right in sorted(found)]


def byte_level_bpe(vocab: dict[str, int], merges: str, prefix_space: bool = False) -> Any:
  """GPT-2's tokenizer of what its two files hold, vocab.json and merges.txt."""
  import tokenizers
  from tokenizers import decoders, models, pre_tokenizers
  pairs: Any = [tuple(line.split(' ')) for line in merges.splitlines() if line and not line.startswith('#version')]
  made = tokenizers.Tokenizer(models.BPE(vocab, pairs))
  made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
  made.decoder = decoders.ByteLevel()
  if made.token_to_id('<|endoftext|>') is not None:
    made.add_special_tokens(['<|endoftext|>'])
  return made


def roberta(vocab: dict[str, int], merges: str, prefix_space: bool = False) -> Any:
  """GPT-2's, with RoBERTa's special tokens around a text where the vocabulary has them (CodeT5)."""
  made = byte_level_bpe(vocab, merges, prefix_space)
  _make_special(made, ('<s>', '<pad>', '</s>', '<unk>', '<mask>'))
  _put_around(made, '<s>', '</s>')
  return made


def _make_special(made: Any, names: tuple[str, ...]) -> None:
  """Finds those of the names that the vocabulary has in texts."""
  made.add_special_tokens([_added(name) for name in names if made.token_to_id(name) is not None])


def _put_around(made: Any, before: str, after: str) -> None:
  """Puts two tokens around an encoder's input, where the vocabulary has them."""
  from tokenizers import processors
  ids = [(name, made.token_to_id(name)) for name in (before, after)]
  if all(token is not None for _, token in ids):
    made.post_processor = processors.TemplateProcessing(single=f'{before} $A {after}', special_tokens=ids)


def bert(words: str, lowercase: bool = True, chinese: bool = True, accents: bool | None = None) -> Any:
  """BERT's tokenizer of vocab.txt, a piece a line.

  Args:
    words: the file.
    lowercase, chinese, accents: whether letters are made small, Chinese characters stand alone, accents are taken
      away (as `lowercase` where it is None).
  """
  import tokenizers
  from tokenizers import decoders, models, normalizers, pre_tokenizers
  vocab = {line.rstrip('\r'): i for i, line in enumerate(words.removesuffix('\n').split('\n'))}
  made = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token='[UNK]'))
  made.normalizer = normalizers.BertNormalizer(
      clean_text=True, handle_chinese_chars=chinese, strip_accents=accents, lowercase=lowercase)
  made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  made.decoder = decoders.WordPiece(prefix='##')
  _make_special(made, ('[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'))
  _put_around(made, '[CLS]', '[SEP]')
  return made
