"""Fits a decoder-only model's vocabulary with `tokenizers`: BERT's WordPiece, GPT-2's byte-level BPE."""

from collections.abc import Iterable

from specdec_jax.errors import InputError

_PAD = {'wordpiece': '[PAD]', 'bpe': '<pad>'}  # id 0, in no text
_EOS = {'wordpiece': '[SEP]', 'bpe': '<|endoftext|>'}  # id 1, also what comes before every text


def fit_tokenizer(texts: Iterable[str], size: int = 8192, kind: str = 'wordpiece', lowercase: bool = False):
  """A `tokenizers.Tokenizer` of at most `size` pieces, whose template puts EOS before a text.

  Args:
    texts: what to count.
    size: pieces, special ones included.
    kind: 'wordpiece' splits at spaces and punctuation, as BERT's; 'bpe' keeps every byte, as GPT-2's.
    lowercase: fold case and accents first, as uncased BERT; only with 'wordpiece'.
  """
  if kind not in _EOS:
    raise InputError(f"kind is '{kind}'; use 'wordpiece' or 'bpe'.")
  if lowercase and kind == 'bpe':
    raise InputError("lowercase would be ignored: kind = 'bpe' keeps every byte; leave it out.")
  from tokenizers import processors
  made, trainer = (_wordpiece(size, lowercase) if kind == 'wordpiece' else _bpe(size))
  made.train_from_iterator(texts, trainer)
  if made.get_vocab_size() > size:
    raise InputError(f'size is {size}; the characters and special pieces alone are {made.get_vocab_size()}.')
  eos = _EOS[kind]
  made.post_processor = processors.TemplateProcessing(
      single=f'{eos} $A', special_tokens=[(eos, made.token_to_id(eos))])
  return made


def _wordpiece(size, lowercase):
  import tokenizers
  from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
  made = tokenizers.Tokenizer(models.WordPiece(unk_token='[UNK]'))
  made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
  made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
  made.decoder = decoders.WordPiece()
  special = [_PAD['wordpiece'], _EOS['wordpiece'], '[UNK]']
  return made, trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)


def _bpe(size):
  import tokenizers
  from tokenizers import decoders, models, pre_tokenizers, trainers
  made = tokenizers.Tokenizer(models.BPE())
  made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
  made.decoder = decoders.ByteLevel()
  return made, trainers.BpeTrainer(
      vocab_size=size, special_tokens=[_PAD['bpe'], _EOS['bpe']], show_progress=False,
      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
