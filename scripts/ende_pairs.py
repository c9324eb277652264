"""Which aligned texts become pairs, in what form, and in which split."""

import collections
import hashlib
import html
import re

Row = tuple[str, str, str]  # English, German, source
WORDS = (3, 60)
WORD_RATIO = (0.4, 2.5)
LETTER_RATIO = (0.4, 2.5)
LETTERS_AND_SPACES = 0.75
SHARED_BY = 3
MARKUP = re.compile('[{<]')
TAG = re.compile(r'<(/?\w+)[^<>]*>')
LINK = re.compile(r'\[\[(.*?)\]\]|\[([^\[\]]+)\]\([^()]*\)')
PLACEHOLDER = re.compile(r'\$?\{\{?[^{}]*\}\}?|%\(\w+\)[sdif]|%\d+\$[sSd]|__\w+__')
MNEMONIC = re.compile(r'[&~]{1,2}(?=\w)')


def _share_of_letters(text: str) -> float:
  return sum(c.isalpha() or c.isspace() for c in text) / max(1, len(text))


def keep(english: str, german: str) -> bool:
  """Whether a pair is translated text of a sensible length, without placeholders in braces or markup."""
  words, others = len(english.split()), len(german.split())
  return (english != german and WORDS[0] <= words <= WORDS[1]
          and WORD_RATIO[0] <= others / words <= WORD_RATIO[1]
          and _share_of_letters(english) >= LETTERS_AND_SPACES
          and not MARKUP.search(english) and not MARKUP.search(german))


def keep_further(english: str, german: str) -> bool:
  """As `keep`, for `normal` pairs of any length up to 60 words: compared are letters, not words (compounds are one)."""
  letters, others = (sum(map(str.isalpha, text)) for text in (english, german))
  return (english.casefold() != german.casefold() and letters >= 3 and others >= 3
          and max(len(english.split()), len(german.split())) <= WORDS[1]
          and LETTER_RATIO[0] <= others / letters <= LETTER_RATIO[1]
          and min(map(_share_of_letters, (english, german))) >= LETTERS_AND_SPACES
          and not MARKUP.search(english) and not MARKUP.search(german))


def normal(english: str, german: str) -> tuple[str, str] | None:
  """A pair without tags, links and marks of mnemonics, placeholders as %1, %2 ... in the English order.

  Returns:
    None where the two sides differ in tags or placeholders.
  """
  english, german = (html.unescape(text).replace("''", "'") for text in (english, german))
  if sorted(TAG.findall(english)) != sorted(TAG.findall(german)):
    return None
  english, german = (MNEMONIC.sub('', LINK.sub(r'\1\2', TAG.sub('', text))) for text in (english, german))
  placeholders, others = (dict.fromkeys(PLACEHOLDER.findall(text)) for text in (english, german))
  if set(placeholders) != set(others):
    return None
  names = {placeholder: f'%{number}' for number, placeholder in enumerate(placeholders, 1)}
  english, german = (PLACEHOLDER.sub(lambda match: names[match[0]], text) for text in (english, german))
  return ' '.join(english.split()), ' '.join(german.split())


def split_of(english: str) -> str | None:
  """The split of all near-duplicates of a text (same English letters), by a hash of the letters.

  2% each for test and validation. Another 2% is in no split (None), so that there are texts
  of the domain that neither training nor development has seen.
  """
  letters = re.sub('[^a-z]', '', english.lower())
  bucket = int(hashlib.sha256(letters.encode('ascii')).hexdigest(), 16) % 1000
  if bucket >= 60:
    return 'train'
  return (None, 'test', 'validation')[bucket // 20]


def select(pairs_by_source) -> dict[str, list[Row]]:
  """Filtered, distinct pairs by split, each split in an order that only its texts decide."""
  found: dict[tuple[str, str], str] = {}
  for source, pairs in pairs_by_source.items():
    for pair in pairs:
      english, german = (' '.join(text.split()) for text in pair)
      if keep(english, german):
        found.setdefault((english, german), source)
  splits: dict[str, list[Row]] = collections.defaultdict(list)
  for row in _in_order(found):
    if (split := split_of(row[0])) is not None:
      splits[split].append(row)
  return splits


def further(pairs_by_source, known: set[tuple[str, str]]) -> list[Row]:
  """Distinct pairs for training alone, by the wider filter, none of them `known`, in the order of `select`.

  Left out as no translation is a German text that a source gives to more than three English ones.
  """
  found: dict[tuple[str, str], str] = {}
  for source, pairs in pairs_by_source.items():
    kept = [pair for pair in dict.fromkeys(normal(*pair) for pair in pairs) if pair and keep_further(*pair)]
    sharers = collections.Counter(german for _, german in kept)
    for english, german in kept:
      if sharers[german] <= SHARED_BY and split_of(english) == 'train' and (english, german) not in known:
        found.setdefault((english, german), source)
  return _in_order(found)


def _in_order(found: dict[tuple[str, str], str]) -> list[Row]:
  order = lambda pair: hashlib.sha256('\t'.join(pair).encode('utf-8')).digest()
  return [(*pair, found[pair]) for pair in sorted(found, key=order)]


