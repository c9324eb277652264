import json
import zipfile

import pytest
from ende_scripts import pak, script


@pytest.fixture
def alignment(monkeypatch):
  return script(monkeypatch, 'ende_alignment')


def write(path, text):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_text(text, encoding='utf-8')


def archive(path, files):
  path.parent.mkdir(parents=True, exist_ok=True)
  with zipfile.ZipFile(path, 'w') as opened:
    for name, text in files.items():
      opened.writestr(name, text)


def test_help_pages_pair_elements_of_the_same_id(alignment, tmp_path):
  pages = tmp_path / 'usr/share/libreoffice/help'
  write(pages / 'en-US/text/a.html', '<h1 id="hd_id1">Open it</h1><div id="par_id2">A</div><p id="par_id3">Alone</p>')
  write(pages / 'de/text/a.html', '<div id="par_id2">Ein A</div><h1 id="hd_id1">Öffnen</h1>')
  write(pages / 'en-US/text/b.html', '<p id="par_id2">No German page</p>')
  assert list(alignment.libreoffice_help(tmp_path)) == [('Open it', 'Öffnen'), ('A', 'Ein A')]


def test_po_files_are_read(alignment, tmp_path):
  write(tmp_path / 'a/de.po', 'msgid "Door"\nmsgstr "Tür"\n')
  assert list(alignment.translations(tmp_path)) == [('Door', 'Tür')]


def test_json_files_of_one_folder_pair_the_same_keys(alignment, tmp_path):
  write(tmp_path / 'x/translations/en.json', json.dumps({'a': {'b': 'Door', 'c': 'New'}}))
  write(tmp_path / 'x/translations/de.json', json.dumps({'a': {'b': 'Tür'}, 'b': 'falsch'}))
  write(tmp_path / 'y/translations/en.json', json.dumps({'a': 'Alone'}))
  assert list(alignment.json_pairs('translations/en.json', 'de.json')(tmp_path)) == [('Door', 'Tür')]
  write(tmp_path / 'z/en-0a.json', json.dumps({'a': 'Window'}))
  write(tmp_path / 'z/en-GB-0a.json', json.dumps({'a': 'Casement'}))
  write(tmp_path / 'z/de-ff.json', json.dumps({'a': 'Fenster'}))
  assert list(alignment.json_pairs('en-[0-9a-f]*.json', 'de-[0-9a-f]*.json')(tmp_path)) == [('Window', 'Fenster')]


def test_typescript_pairs_messages_by_key(alignment, tmp_path):
  library = tmp_path / 'typescript/lib'
  write(library / 'typescript.js', 'diag(1, 1 /* Error */, "K_1", "Say \\"so\\"."), '
        'diag(2, 3 /* Message */, "K_2", "Not translated.")')
  write(library / 'de/diagnosticMessages.generated.json', json.dumps({'K_1': 'Sag es.'}))
  assert list(alignment.typescript(tmp_path)) == [('Say "so".', 'Sag es.')]


def test_vscode_pairs_indices_and_keys_with_the_pseudo_language(alignment, tmp_path):
  german, pseudo = (tmp_path / f'@codingame/monaco-vscode-language-pack-{name}/translations'
                    for name in ('de', 'qps-ploc'))
  write(german / 'main.i18n.json.js', 'var content = [\n\tundefined,\n\t"Öffnen",\n\t"",\n\t"Ja",\n];')
  write(pseudo / 'main.i18n.json.js', 'var content = [\n\tundefined,\n\t"Øpëñ",\n\t"Ñø",\n\t"Ýës",\n];')
  write(german / 'extensions/a.json', json.dumps({'': ['licence'], 'contents': {'bundle': {'k': 'Tür', 'l': 'Weg'}}}))
  write(pseudo / 'extensions/a.json', json.dumps({'contents': {'bundle': {'k': 'Ðøør'}}}))
  write(german / 'extensions/b.json', json.dumps({'contents': {'k': 'allein'}}))
  assert list(alignment.vscode(tmp_path)) == [('Open', 'Öffnen'), ('Yes', 'Ja'), ('Door', 'Tür')]


def test_mozilla_pairs_files_of_the_same_path_with_names_put_in(alignment, tmp_path):
  archive(tmp_path / 'usr/lib/omni.ja', {
      'localization/en-US/a.ftl': 'alone = Alone\n', 'chrome/en-US/locale/en-US/x.properties': 'k=Door\n'})
  archive(tmp_path / 'usr/lib/browser/omni.ja', {
      'localization/en-US/brand.ftl': '-brand = Firefox\n',
      'localization/en-US/b.ftl': 'open = Open { -brand } now\nvaries = { $n ->\n   *[other] x\n }\n'})
  archive(tmp_path / 'usr/lib/langpack-de@firefox.xpi', {
      'browser/localization/de/brand.ftl': '-brand = Feuerfuchs\n',
      'browser/localization/de/b.ftl': 'open = Jetzt { -brand(case: "x") } öffnen\nvaries = y\n',
      'chrome/de/locale/de/x.properties': 'k=Tür\n'})
  assert list(alignment.mozilla(tmp_path)) == [
      ('Open Firefox now', 'Jetzt Feuerfuchs öffnen'), ('Door', 'Tür')]


def test_chromium_pairs_resource_ids(alignment, tmp_path):
  folder = tmp_path / 'usr/lib/chromium/locales'
  folder.mkdir(parents=True)
  (folder / 'en-US.pak').write_bytes(pak({1: b'Door', 2: b'Alone'}))
  (folder / 'de.pak').write_bytes(pak({1: 'Tür'.encode(), 3: b'Allein'}))
  assert list(alignment.chromium(tmp_path)) == [('Door', 'Tür')]


def test_bundles_pair_files_of_one_name_in_jars_and_beside_them(alignment, tmp_path):
  archive(tmp_path / 'lib/a.jar', {'org/m_en.properties': 'k=Door\nl=Alone\n', 'org/n.properties': 'k=New\n'})
  archive(tmp_path / 'lib/a-de.jar', {'org/m_de_DE.properties': 'k=T\\u00FCr\n'})
  write(tmp_path / 'x/b_en.properties', 'k=Window\n')
  write(tmp_path / 'x/b_de_DE.properties', 'k=Fenster\n')
  assert list(alignment.bundles('_en.properties', '_de_DE.properties')(tmp_path)) == [
      ('Door', 'Tür'), ('Window', 'Fenster')]


def test_node_red_pairs_keys_and_help_whose_blocks_agree(alignment, tmp_path):
  locales = tmp_path / '@node-red/nodes/locales'
  write(locales / 'en-US/messages.json', json.dumps({'a': {'b': 'Door'}}))
  write(locales / 'de/messages.json', json.dumps({'a': {'b': 'Tür'}}))
  write(locales / 'en-US/common/x.html', '<h3>Input</h3><p>One text.</p>')
  write(locales / 'de/common/x.html', '<h3>Eingang</h3><p>Ein Text.</p>')
  write(locales / 'en-US/common/y.html', '<h3>Output</h3>')
  write(locales / 'de/common/y.html', '<p>Ausgang</p>')
  write(locales / 'en-US/common/z.html', '<h3>Alone</h3>')
  assert set(alignment.node_red(tmp_path)) == {('Door', 'Tür'), ('Input', 'Eingang'), ('One text.', 'Ein Text.')}
