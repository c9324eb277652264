import struct

import pytest
from ende_scripts import pak, script


@pytest.fixture
def formats(monkeypatch):
  return script(monkeypatch, 'ende_formats')


def test_help_paragraphs_are_outermost_elements_by_id(formats):
  page = ('<p>No id</p><h1 id="hd_id1">Open <b>it</b>,<br> now</h1><div id="par_id2"><p>A &amp; B</p></div>'
          '<p id="par_id2">A second of this id</p><p id="other">No</p>')
  assert formats.help_paragraphs(page) == {'hd_id1': 'Open it, now', 'par_id2': 'A & B'}


def test_blocks_keep_their_tags_and_order(formats):
  assert formats.blocks('<h3>Input</h3><dl><dt>topic <span>string</span></dt></dl><p>One<img>.</p><i>no</i>') == [
      ('h3', 'Input'), ('dt', 'topic string'), ('p', 'One.')]


@pytest.mark.parametrize('order', '<>')
def test_catalogues_lose_contexts_and_plurals(formats, order):
  entries = [(b'menu\x04Open', 'Öffnen'.encode()), (b'%d file\0%d files', b'%d Datei\0%d Dateien')]
  strings = [text for side in zip(*entries) for text in side]
  start = 28 + 8 * len(strings)
  places = [start + sum(map(len, strings[:i])) for i in range(len(strings))]
  table = [x for text, place in zip(strings, places) for x in (len(text), place)]
  data = struct.pack(f'{order}7I', 0x950412de, 0, 2, 28, 28 + 16, 0, 0)
  data += struct.pack(f'{order}{len(table)}I', *table) + b''.join(strings)
  assert formats.read_mo(data) == [('Open', 'Öffnen'), ('%d file', '%d Datei')]
  with pytest.raises(ValueError, match=r'Not a \.mo'):
    formats.read_mo(b'text' + data[4:])


def test_po_entries_are_joined_and_fuzzy_or_old_ones_left_out(formats):
  text = r"""
msgid ""
msgstr "Language: de\n"

# a comment
#: file.c:1
msgctxt "menu"
msgid ""
"Save the "
"\"file\""
msgstr "Die „Datei“\n"
"sichern"

#, c-format, fuzzy
msgid "Enter a name"
msgstr "Name des Alarms"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "Not translated"
msgstr ""

#~ msgid "Gone"
#~ msgstr "Weg"
"""
  assert formats.read_po(text) == [('Save the "file"', 'Die „Datei“\nsichern'), ('%d file', '%d Datei')]


def test_leaves_are_strings_by_the_path_of_their_keys(formats):
  assert dict(formats.leaves({'a': {'b': 'x', 'c': 1}, 'b': 'y', 'd': ['z']})) == {('a', 'b'): 'x', ('b',): 'y'}


def test_properties_read_escapes_and_go_on_after_a_backslash(formats):
  text = ('# comment = no\n! neither = no\nA.b=Vergr\\u00F6\\u00DFern\\t\\\\x\nc : spaced value \n\n'
          'd=one \\\n    two\nx y=not a key\ne=a=b\\:c\nf=\n')
  assert formats.properties(text) == {
      'A.b': 'Vergrößern\t\\x', 'c': 'spaced value', 'd': 'one two', 'e': 'a=b:c', 'f': ''}


def test_fluent_patterns_by_id_and_attribute(formats):
  text = """# comment
-brand = Firefox

open = Open
    .title =
        Opens { -brand }

        again
    .accesskey = O
choice = { $count ->
    [one] One
   *[other] Many
}
named = With { -brand(case: "dative") } and { "{" }, { $name } { -unknown }
"""
  patterns = formats.fluent(text)
  assert patterns['open'] == 'Open' and patterns['open.title'] == 'Opens { -brand }\n\nagain'
  assert set(patterns) == {'-brand', 'open', 'open.title', 'open.accesskey', 'choice', 'named'}
  assert formats.fluent_texts(patterns, {'-brand': 'Firefox'}) == {
      'open': 'Open', 'open.title': 'Opens Firefox\n\nagain', 'open.accesskey': 'O',
      'named': 'With Firefox and {, { $name } { -unknown }'}


def test_data_packs_by_resource_id(formats):
  data = pak({7: 'Öffnen'.encode(), 9: b'', 300: b'\x1f\x8bzipped', 301: b'Ja'})
  assert formats.data_pack(data) == {7: 'Öffnen', 9: '', 301: 'Ja'}
  with pytest.raises(ValueError, match='version 4'):
    formats.data_pack(pak({}, version=4))
  with pytest.raises(ValueError, match='encoding 2'):
    formats.data_pack(pak({}, encoding=2))


def test_script_strings_keep_the_places_of_absent_ones(formats):
  assert formats.script_strings('var content = [\n\tundefined,\n\t"a \\"b\\"",\n\t"c\\n",\n];\nexport {content};') == [
      None, 'a "b"', 'c\n']


def test_pseudo_letters_are_read_back(formats):
  assert formats.plain('Lëærñ møre æþøµt §QL Üñðø {0}, ÑØT £øçæl') == 'Learn more about SQL Undo {0}, NOT Local'
