import gzip
import importlib
import json
import pathlib
import struct
import zipfile

import pytest

from specdec_jax import paths

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / 'scripts'


@pytest.fixture
def build(monkeypatch):
  monkeypatch.syspath_prepend(str(SCRIPTS))
  return importlib.import_module('build_ende_data')


@pytest.fixture
def sources(build):
  return build.sources


def write(path, text):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding='utf-8')


def test_help_pages_pair_elements_of_the_same_id(sources, tmp_path):
  pages = tmp_path / 'usr/share/libreoffice/help'
  write(pages / 'en-US/text/a.html', '<p>No id</p><h1 id="hd_id1">Open <b>it</b>,<br> now</h1>'
        '<div id="par_id2"><p>A &amp; B</p></div><p id="par_id3">Only English</p>')
  write(pages / 'de/text/a.html', '<div id="par_id2">A und B</div><h1 id="hd_id1">Jetzt</h1>')
  write(pages / 'en-US/text/b.html', '<p id="par_id2">No German page</p>')
  assert list(sources.libreoffice_help(tmp_path)) == [('Open it, now', 'Jetzt'),
                                                      ('A & B', 'A und B')]


@pytest.mark.parametrize('order', '<>')
def test_catalogues_lose_contexts_and_plurals(sources, order):
  entries = [(b'menu\x04Open', 'Öffnen'.encode()), (b'%d file\0%d files', b'%d Datei\0%d Dateien')]
  strings = [text for side in zip(*entries) for text in side]
  start = 28 + 8 * len(strings)
  places = [start + sum(map(len, strings[:i])) for i in range(len(strings))]
  table = [x for text, place in zip(strings, places) for x in (len(text), place)]
  data = struct.pack(f'{order}7I', 0x950412de, 0, 2, 28, 28 + 16, 0, 0)
  data += struct.pack(f'{order}{len(table)}I', *table) + b''.join(strings)
  assert sources.read_mo(data) == [('Open', 'Öffnen'), ('%d file', '%d Datei')]
  with pytest.raises(ValueError, match='Not a .mo'):
    sources.read_mo(b'text' + data[4:])


def test_home_assistant_pairs_the_same_keys(sources, tmp_path):
  with zipfile.ZipFile(tmp_path / 'a.whl', 'w') as archive:
    archive.writestr('x/translations/en.json', json.dumps({'a': {'b': 'Door', 'c': 'New'}}))
    archive.writestr('x/translations/de.json', json.dumps({'a': {'b': 'Tür'}, 'b': 'falsch'}))
    archive.writestr('y/translations/en.json', json.dumps({'a': 'Alone'}))
  assert list(sources.home_assistant(tmp_path / 'a.whl')) == [('Door', 'Tür')]


def test_typescript_pairs_messages_by_key(sources, tmp_path):
  library = tmp_path / 'package/lib'
  write(library / 'typescript.js', 'diag(1, 1 /* Error */, "K_1", "Say \\"so\\"."), '
        'diag(2, 3 /* Message */, "K_2", "Not translated.")')
  write(library / 'de/diagnosticMessages.generated.json', json.dumps({'K_1': 'Sag es.'}))
  assert list(sources.typescript(tmp_path)) == [('Say "so".', 'Sag es.')]


@pytest.mark.parametrize('english, german, kept', [
    ('Open the file', 'Öffnen Sie die Datei', True),
    ('Open file', 'Datei öffnen', False),
    ('Tank water temperature', 'Tankwassertemperatur', False),
    ('Open the file', 'Open the file', False),
    ('Open the {name} file', 'Die Datei öffnen', False),
    ('Open the <b>file</b>', 'Die Datei öffnen', False),
    ('1 2 3 + 4', '1 2 3 plus 4', False),
    (' '.join(['word'] * 61), ' '.join(['Wort'] * 61), False),
])
def test_what_is_kept(build, english, german, kept):
  assert build.keep(english, german) == kept


def test_near_duplicates_share_a_split_and_pairs_are_distinct(build):
  pairs = {'a': [(f'Number {"abcdefghij"[i % 10] * (1 + i // 10)} is on', f'Nummer {i} ist an')
                 for i in range(500)]}
  pairs['b'] = [(f'_{english.upper()}!', german) for english, german in pairs['a']]
  pairs['c'] = pairs['a'] + [('  Open\n the file ', 'Datei  jetzt öffnen')]
  splits = build.select(pairs)
  assert {'train', 'validation', 'test'} == set(splits)
  rows = [row for rows in splits.values() for row in rows]
  assert len(rows) == len(set(rows)) and 900 < len(rows) < 1001
  assert [row for row in rows if row[2] == 'c'] == [('Open the file', 'Datei jetzt öffnen', 'c')]
  homes = {}
  for split, rows in splits.items():
    for english, _, _ in rows:
      homes.setdefault(english.strip('_!').casefold(), set()).add(split)
  assert all(len(splits) == 1 for splits in homes.values())


def test_the_shipped_test_set_is_the_test_split(build):
  with gzip.open(paths.embedded_dir('ende/test.tsv.gz'), 'rt', encoding='utf-8') as f:
    rows = [tuple(line.rstrip('\n').split('\t')) for line in f]
  assert {build.split_of(f'_{english.upper()}!') for english, _, _ in rows} == {'test'}
  splits = build.select({'a': [(english, german) for english, german, _ in rows]})
  assert set(splits) == {'test'} and len(splits['test']) > 990
