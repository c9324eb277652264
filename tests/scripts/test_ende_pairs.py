import gzip

import pytest
from ende_scripts import script

from specdec_jax import paths


@pytest.fixture
def pairs(monkeypatch):
  return script(monkeypatch, 'ende_pairs')


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
def test_what_is_kept(pairs, english, german, kept):
  assert pairs.keep(english, german) == kept


@pytest.mark.parametrize('english, german, kept', [
    ('Open', 'Öffnen', True),
    ('Tank water temperature', 'Tankwassertemperatur', True),
    ('Delete %1 now', '%1 jetzt löschen', True),
    ('OK', 'Ja', False),
    ('Server', 'SERVER', False),
    ('Open the <file', 'Die Datei öffnen', False),
    ('{n, plural, other %1}', '{n, plural, other %1}x', False),
    ('Open', 'Öffnen Sie bitte die Datei', False),
    ('Open 1 + 2 = 3 (%)', 'Öffnen 1 plus zwei', False),
    ('word ' * 61, 'Wort ' * 61, False),
])
def test_what_is_kept_to_train_on_besides(pairs, english, german, kept):
  assert pairs.keep_further(english, german) == kept


@pytest.mark.parametrize('english, german, wanted', [
    ('Open {file} in {app}, {file}', 'In {app} öffnen: {file}', ('Open %1 in %2, %1', 'In %2 öffnen: %1')),
    ('%(n)s of %2$S and ${x} __y__ %s', '%2$S %(n)s ${x} __y__ %s', ('%1 of %2 and %3 %4 %s', '%2 %1 %3 %4 %s')),
    ('Open {file}', 'Öffne {datei}', None),
    ('Open {file}', 'Öffnen', None),
    ('Open <b class="x">it</b>', '<b>Es</b> öffnen', ('Open it', 'Es öffnen')),
    ('Open <1>it</1><br/>', '<1>Es</1><br> öffnen', ('Open it', 'Es öffnen')),
    ('Open <b>it</b>', 'Es öffnen', None),
    ('&Open && E&xit ~now', 'Ö&ffnen && ~jetzt', ('Open && Exit now', 'Öffnen && jetzt')),
    ('See [the docs](http://a/b) and [[this]]', 'Siehe [Doku](c) und [[dies]]',
     ('See the docs and this', 'Siehe Doku und dies')),
    ("A &lt;b&gt;&nbsp;''x''", "Ein &lt;b&gt; ''x''", ("A 'x'", "Ein 'x'")),
])
def test_pairs_in_their_normal_form(pairs, english, german, wanted):
  assert pairs.normal(english, german) == wanted


def test_near_duplicates_share_a_split_and_pairs_are_distinct(pairs):
  texts = {'a': [(f'Number {"abcdefghij"[i % 10] * (1 + i // 10)} is on', f'Nummer {i} ist an')
                 for i in range(500)]}
  texts['b'] = [(f'_{english.upper()}!', german) for english, german in texts['a']]
  texts['c'] = texts['a'] + [('  Open\n the file ', 'Datei  jetzt öffnen')]
  splits = pairs.select(texts)
  assert set(splits) == {'train', 'validation', 'test'}
  rows = [row for rows in splits.values() for row in rows]
  assert len(rows) == len(set(rows)) and 900 < len(rows) < 1001
  assert [row for row in rows if row[2] == 'c'] == [('Open the file', 'Datei jetzt öffnen', 'c')]
  homes = {}
  for split, rows in splits.items():
    for english, _, _ in rows:
      homes.setdefault(english.strip('_!').casefold(), set()).add(split)
  assert all(len(splits) == 1 for splits in homes.values())


def shipped_test_rows():
  with gzip.open(paths.embedded_dir('ende/test.tsv.gz'), 'rt', encoding='utf-8') as f:
    return [tuple(line.rstrip('\n').split('\t')) for line in f]


def test_the_shipped_test_set_is_the_test_split(pairs):
  rows = shipped_test_rows()
  assert {pairs.split_of(f'_{english.upper()}!') for english, _, _ in rows} == {'test'}
  splits = pairs.select({'a': [(english, german) for english, german, _ in rows]})
  assert set(splits) == {'test'} and len(splits['test']) > 990


def test_further_pairs_hold_nothing_of_the_test_split_nor_what_is_known(pairs):
  near = [(f'&{english.upper()} {{x}}', f'{german} {{x}}!') for english, german, _ in shipped_test_rows()]
  others = [('Open the file', 'Datei öffnen'), ('Close {x}', '{x} schließen'), ('Known here', 'Hier bekannt')]
  assert {pairs.split_of(english) for english, _ in others} == {'train'}
  rows = pairs.further({'a': near + others, 'b': others}, {('Known here', 'Hier bekannt')})
  assert sorted(rows) == [('Close %1', '%1 schließen', 'a'), ('Open the file', 'Datei öffnen', 'a')]


def test_a_german_text_for_more_than_three_english_ones_is_no_translation(pairs):
  often = [(f'Enter the {what}', 'Name des Alarms') for what in ('name', 'type', 'user', 'port')]
  assert len([english for english, _ in often if pairs.split_of(english) == 'train']) == 4
  assert pairs.further({'a': often}, set()) == []
  assert len(pairs.further({'a': often[:2], 'b': often[2:]}, set())) == 4
