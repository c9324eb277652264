"""Readers of the files in which software keeps its texts: key -> text, or (English, German)."""

import html.parser
import itertools
import json
import re
import struct

VOID_TAGS = frozenset('area base br col embed hr img input link meta source track wbr'.split())
# The pseudo language qps-ploc writes these letters for plain ones, each for one, so that it can be read back.
PSEUDO_LETTERS = str.maketrans('æþçðëïñøµÿÆßÇÐËÏ£ÑØ§ÜÝ', 'abcdeinouyABCDEILNOSUY')
SCRIPT_STRING = re.compile(r'^\t("(?:[^"\\]|\\.)*"|undefined)', re.MULTILINE)
PO_LINE = re.compile(r'(?:(msg\w+(?:\[\d+\])?)\s+)?("(?:[^"\\]|\\.)*")')
PROPERTY = re.compile(r'([^#!=:\s](?:\\.|[^\\=:\s])*)\s*[=:]\s*(.*)')
COMPRESSED = (b'\x1f\x8b', b'\x1e\x9b')  # gzip, Chromium's brotli
FLUENT_ENTRY = re.compile(r'(-?[A-Za-z][\w-]*|\s+\.[A-Za-z][\w-]*)\s*=\s*(.*)')
FLUENT_TERM = re.compile(r'\{\s*(-[\w-]+)(?:\([^()]*\))?\s*\}')
FLUENT_LITERAL = re.compile(r'\{\s*"([^"]*)"\s*\}')


class _Elements(html.parser.HTMLParser):
  """Texts of the outermost elements that `wanted(tag, attributes)` gives a key, (key, text) in order."""

  def __init__(self, wanted):
    super().__init__(convert_charrefs=True)
    self.found, self._wanted, self._key, self._depth, self._parts = [], wanted, None, 0, []

  def handle_starttag(self, tag, attrs):
    if tag in VOID_TAGS:
      return
    if self._key is not None:
      self._depth += 1
    elif (key := self._wanted(tag, dict(attrs))) is not None:
      self._key, self._depth, self._parts = key, 1, []

  def handle_data(self, data):
    if self._key is not None:
      self._parts.append(data)

  def handle_endtag(self, tag):
    if self._key is None or tag in VOID_TAGS:
      return
    self._depth -= 1
    if self._depth == 0:
      self.found.append((self._key, ''.join(self._parts)))
      self._key = None


def _elements(page: str, wanted) -> list[tuple[str, str]]:
  parser = _Elements(wanted)
  parser.feed(page)
  return parser.found


def help_paragraphs(page: str) -> dict[str, str]:
  """LibreOffice help page -> texts of the elements whose id starts with par_id or hd_id (the first of each id)."""
  def key(tag, attributes):
    del tag
    element = attributes.get('id') or ''
    return element if element.startswith(('par_id', 'hd_id')) else None

  texts = {}
  for element, text in _elements(page, key):
    texts.setdefault(element, text)
  return texts


def blocks(page: str) -> list[tuple[str, str]]:
  """HTML -> (tag, text) of its headings, paragraphs and list items, in order."""
  wanted = frozenset('h1 h2 h3 h4 p li dt dd'.split())
  return _elements(page, lambda tag, attributes: tag if tag in wanted else None)


def read_mo(data: bytes) -> list[tuple[str, str]]:
  """GNU gettext catalogue (.mo) -> (msgid, msgstr) pairs, contexts and plural forms cut off."""
  order = {b'\xde\x12\x04\x95': '<', b'\x95\x04\x12\xde': '>'}.get(data[:4])
  if order is None:
    raise ValueError('Not a .mo catalogue.')
  count, originals, translations = struct.unpack_from(f'{order}3I', data, 8)

  def text(table, i):
    length, start = struct.unpack_from(f'{order}2I', data, table + 8 * i)
    return data[start:start + length].decode('utf-8').split('\0')[0].split('\x04')[-1]

  return [(text(originals, i), text(translations, i)) for i in range(count)]


def read_po(text: str) -> list[tuple[str, str]]:
  """GNU gettext source (.po) -> (msgid, msgstr) pairs; fuzzy entries are left out, and plural forms but the first."""
  pairs = []
  for entry in re.split(r'\n\s*\n', text):
    lines = [line for line in entry.splitlines() if not line.startswith('#~')]
    if not any(line.startswith('#,') and 'fuzzy' in line for line in lines):
      parts, key = {}, None
      for line in lines:
        if match := PO_LINE.fullmatch(line.strip()):
          key = match[1] or key
          parts[key] = parts.get(key, '') + json.loads(match[2])
      translation = parts.get('msgstr') or parts.get('msgstr[0]')
      if parts.get('msgid') and translation:
        pairs.append((parts['msgid'], translation))
  return pairs


def leaves(tree, prefix=()):
  """Parsed JSON -> (path of keys, text) of its strings."""
  for key, value in tree.items():
    if isinstance(value, dict):
      yield from leaves(value, prefix + (key,))
    elif isinstance(value, str):
      yield prefix + (key,), value


def properties(text: str) -> dict[str, str]:
  """Java's .properties -> texts by key; escapes are read, and a line that ends in a backslash goes on."""
  found = {}
  for line in re.sub(r'(?<!\\)\\\r?\n\s*', '', text).splitlines():
    if entry := PROPERTY.fullmatch(line.strip()):
      found[entry[1]] = re.sub(r'\\(u[0-9A-Fa-f]{4}|.)', _unescaped, entry[2])
  return found


def _unescaped(match) -> str:
  escape = match[1]
  return chr(int(escape[1:], 16)) if len(escape) == 5 else {'n': '\n', 't': '\t', 'r': '\r'}.get(escape, escape)


def fluent(text: str) -> dict[str, str]:
  """Mozilla's Fluent (.ftl) -> patterns by id, of attributes by id.attribute, of terms by -id."""
  found, message, key = {}, '', None
  for line in text.splitlines():
    if line.startswith('#'):
      key = None
    elif entry := FLUENT_ENTRY.fullmatch(line):
      if entry[1][0].isspace():
        key = message + entry[1].strip()
      else:
        key = message = entry[1]
      found[key] = entry[2]
    elif key is not None and (not line or line[0].isspace()):
      found[key] += '\n' + line.strip()
    else:
      key = None
  return {key: pattern.strip() for key, pattern in found.items()}


def fluent_texts(patterns: dict[str, str], terms: dict[str, str]) -> dict[str, str]:
  """Patterns without a choice among variants, names of products and literals put in; variables stay in braces."""
  texts = {}
  for key, pattern in patterns.items():
    if not key.startswith('-') and '->' not in pattern:
      named = FLUENT_TERM.sub(lambda match: terms.get(match[1], match[0]), pattern)
      texts[key] = FLUENT_LITERAL.sub(r'\1', named)
  return texts


def data_pack(data: bytes) -> dict[int, str]:
  """Chromium's .pak, version 5 in UTF-8 -> texts by resource id; compressed resources are left out."""
  version, encoding, count = struct.unpack_from('<IBxxxH', data)
  if (version, encoding) != (5, 1):
    raise ValueError(f'A .pak of version {version}, encoding {encoding}; 5 and 1 (UTF-8) are read.')
  entries = [struct.unpack_from('<HI', data, 12 + 6 * i) for i in range(count + 1)]
  return {number: data[start:end].decode('utf-8')
          for (number, start), (_, end) in itertools.pairwise(entries)
          if not data[start:end].startswith(COMPRESSED)}


def script_strings(script: str) -> list[str | None]:
  """A script that is one array, an entry a line -> its strings; None for undefined."""
  return [None if entry == 'undefined' else json.loads(entry) for entry in SCRIPT_STRING.findall(script)]


def plain(pseudo: str) -> str:
  """Text of the pseudo language qps-ploc -> the English that it was made from."""
  return pseudo.translate(PSEUDO_LETTERS)
