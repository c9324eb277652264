"""Texts of unpacked packages, aligned by key, id or path; each function yields (English, German)."""

import json
import pathlib
import re
import zipfile
from collections.abc import Callable, Iterable

import ende_formats as formats

Pairs = Iterable[tuple[str, str]]
DIAGNOSTIC = re.compile(r'diag\(\d+, \d+ /\*[^*]*\*/, "((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"')


def _read(path: pathlib.Path) -> str:
  return path.read_text(encoding='utf-8')


def _by_key(english: dict, german: dict) -> Pairs:
  return ((text, german[key]) for key, text in english.items() if key in german)


def libreoffice_help(root: pathlib.Path) -> Pairs:
  """Help pages of the same path, elements of the same id."""
  english = root / 'usr/share/libreoffice/help/en-US'
  for page in sorted(english.rglob('*.html')):
    other = english.parent / 'de' / page.relative_to(english)
    if other.is_file():
      yield from _by_key(formats.help_paragraphs(_read(page)), formats.help_paragraphs(_read(other)))


def catalogues(root: pathlib.Path) -> Pairs:
  """German gettext catalogues whose message ids are English."""
  for path in sorted(root.rglob('LC_MESSAGES/*.mo')):
    yield from formats.read_mo(path.read_bytes())


def translations(root: pathlib.Path) -> Pairs:
  """German .po files whose message ids are English."""
  for path in sorted(root.rglob('*.po')):
    yield from formats.read_po(_read(path))


def json_pairs(english: str, german: str) -> Callable[[pathlib.Path], Pairs]:
  """Pairs JSON files in one folder, named by these patterns, the same key in both; an absent German file has none."""
  def pairs(root):
    for path in sorted(root.rglob(english)):
      for other in sorted(path.parent.glob(german)):
        yield from _by_key(*(dict(formats.leaves(json.loads(_read(file)))) for file in (path, other)))
  return pairs


def typescript(root: pathlib.Path) -> Pairs:
  """The compiler's messages: the English in its source, the German by message key."""
  source = _read(root / 'typescript/lib/typescript.js')
  german = json.loads(_read(root / 'typescript/lib/de/diagnosticMessages.generated.json'))
  for key, text in DIAGNOSTIC.findall(source):
    if key in german:
      yield json.loads(f'"{text}"'), german[key]


def vscode(root: pathlib.Path) -> Pairs:
  """The editor's messages by index and its extensions' by key; the English is read back from the pseudo language."""
  german, pseudo = (root / f'@codingame/monaco-vscode-language-pack-{name}/translations' for name in ('de', 'qps-ploc'))
  sides = (formats.script_strings(_read(pack / 'main.i18n.json.js')) for pack in (pseudo, german))
  yield from ((formats.plain(english), text) for english, text in zip(*sides) if english and text)
  for path in sorted(german.glob('extensions/*.json')):
    other = pseudo / 'extensions' / path.name
    if other.is_file():
      keyed = (dict(formats.leaves(json.loads(_read(file)).get('contents', {}))) for file in (other, path))
      yield from ((formats.plain(english), text) for english, text in _by_key(*keyed))


def mozilla(root: pathlib.Path) -> Pairs:
  """Fluent and .properties files of the same path in a program's archives (English) and its language pack (German)."""
  with zipfile.ZipFile(next(root.rglob('langpack-de@*.xpi'))) as pack:
    german = {name: pack.read(name).decode('utf-8')
              for name in pack.namelist() if name.endswith(('.ftl', '.properties'))}
  files = []
  for archive in sorted(root.rglob('omni.ja')):
    with zipfile.ZipFile(archive) as omni:
      for name in omni.namelist():
        other = name.replace('/en-US/', '/de/')
        ours = german.get(other, german.get('browser/' + other))
        if '/en-US/' in name and ours is not None:
          files.append((name, omni.read(name).decode('utf-8'), ours))
  yield from _mozilla_pairs(files)


def _mozilla_pairs(files) -> Pairs:
  fluent = [tuple(map(formats.fluent, texts)) for name, *texts in files if name.endswith('.ftl')]
  terms = [{key: text for file in fluent for key, text in file[side].items() if key.startswith('-')} for side in (0, 1)]
  for patterns in fluent:
    yield from _by_key(*map(formats.fluent_texts, patterns, terms))
  for name, *texts in files:
    if name.endswith('.properties'):
      yield from _by_key(*map(formats.properties, texts))


def chromium(root: pathlib.Path) -> Pairs:
  """The browser's texts by resource id."""
  yield from _by_key(*(formats.data_pack(next(root.rglob(f'locales/{name}.pak')).read_bytes())
                       for name in ('en-US', 'de')))


def bundles(english: str, german: str) -> Callable[[pathlib.Path], Pairs]:
  """Pairs .properties files of the same folder, in jars or not: their names end in `english` and `german`."""
  def pairs(root):
    texts = {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob('*.properties')}
    for jar in sorted(root.rglob('*.jar')):
      with zipfile.ZipFile(jar) as archive:
        texts |= {name: archive.read(name) for name in archive.namelist() if name.endswith('.properties')}
    for name in sorted(texts):
      if name.endswith(german) and (other := name.removesuffix(german) + english) in texts:
        yield from _by_key(*(formats.properties(texts[key].decode('latin-1')) for key in (other, name)))
  return pairs


def node_red(root: pathlib.Path) -> Pairs:
  """The editor's and the nodes' messages by key, and help pages block by block where the blocks' tags agree."""
  for path in sorted(root.rglob('locales/en-US/**/*')):
    other = pathlib.Path(str(path).replace('/locales/en-US/', '/locales/de/'))
    if path.suffix == '.json' and other.is_file():
      yield from _by_key(*(dict(formats.leaves(json.loads(_read(file)))) for file in (path, other)))
    elif path.suffix == '.html' and other.is_file():
      english, german = (formats.blocks(_read(file)) for file in (path, other))
      if [tag for tag, _ in english] == [tag for tag, _ in german]:
        yield from ((text, translated) for (_, text), (_, translated) in zip(english, german))
