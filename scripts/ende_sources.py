"""Aligned English-German texts in four public packages; each function yields (English, German)."""

import html.parser
import json
import pathlib
import re
import struct
import zipfile

VOID_TAGS = frozenset('area base br col embed hr img input link meta source track wbr'.split())
DIAGNOSTIC = re.compile(r'diag\(\d+, \d+ /\*[^*]*\*/, "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"')


class _Paragraphs(html.parser.HTMLParser):
  """Text of the elements whose id starts with par_id or hd_id, by id (the first of each)."""

  def __init__(self):
    super().__init__(convert_charrefs=True)
    self.texts, self._id, self._depth, self._parts = {}, None, 0, []

  def handle_starttag(self, tag, attrs):
    if tag in VOID_TAGS:
      return
    if self._id is not None:
      self._depth += 1
    elif (element := dict(attrs).get('id') or '').startswith(('par_id', 'hd_id')):
      self._id, self._depth, self._parts = element, 1, []

  def handle_data(self, data):
    if self._id is not None:
      self._parts.append(data)

  def handle_endtag(self, tag):
    if self._id is None or tag in VOID_TAGS:
      return
    self._depth -= 1
    if self._depth == 0:
      self.texts.setdefault(self._id, ''.join(self._parts))
      self._id = None


def html_paragraphs(page: str) -> dict[str, str]:
  """Help page -> texts by element id."""
  parser = _Paragraphs()
  parser.feed(page)
  return parser.texts


def libreoffice_help(root: pathlib.Path):
  """Pairs of an unpacked help tree: pages of the same path, elements of the same id."""
  english = root / 'usr/share/libreoffice/help/en-US'
  for page in sorted(english.rglob('*.html')):
    other = english.parent / 'de' / page.relative_to(english)
    if other.is_file():
      german = html_paragraphs(other.read_text(encoding='utf-8'))
      for element, text in html_paragraphs(page.read_text(encoding='utf-8')).items():
        if element in german:
          yield text, german[element]


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


def libreoffice_messages(root: pathlib.Path):
  """Pairs of the German user-interface catalogues of an unpacked tree."""
  for path in sorted(root.rglob('LC_MESSAGES/*.mo')):
    yield from read_mo(path.read_bytes())


def _leaves(tree, prefix=()):
  for key, value in tree.items():
    if isinstance(value, dict):
      yield from _leaves(value, prefix + (key,))
    elif isinstance(value, str):
      yield prefix + (key,), value


def home_assistant(wheel: pathlib.Path):
  """Pairs of the integrations' translation files: the same key in en.json and de.json."""
  with zipfile.ZipFile(wheel) as archive:
    names = set(archive.namelist())
    for name in sorted(n for n in names if n.endswith('translations/en.json')):
      other = name.removesuffix('en.json') + 'de.json'
      if other in names:
        german = dict(_leaves(json.loads(archive.read(other))))
        for key, text in _leaves(json.loads(archive.read(name))):
          if key in german:
            yield text, german[key]


def typescript(root: pathlib.Path):
  """Pairs of the compiler's messages: the English in its source, the German by message key."""
  source = (root / 'package/lib/typescript.js').read_text(encoding='utf-8')
  path = root / 'package/lib/de/diagnosticMessages.generated.json'
  german = json.loads(path.read_text(encoding='utf-8'))
  for key, text in DIAGNOSTIC.findall(source):
    if key in german:
      yield json.loads(f'"{text}"'), german[key]
