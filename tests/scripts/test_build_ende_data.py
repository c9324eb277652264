import gzip
import itertools
import sys

import pytest
from ende_scripts import script


@pytest.fixture
def build(monkeypatch):
  return script(monkeypatch, 'build_ende_data')


def read(path):
  with gzip.open(path, 'rt', encoding='utf-8') as f:
    return [tuple(line.rstrip('\n').split('\t')) for line in f]


def source(build, name, pairs):
  return build.sources.Source(name, 'MIT', (), lambda folder: pairs)


def test_further_pairs_leave_the_three_splits_and_the_vocabulary_as_they_are(build, monkeypatch, tmp_path):
  verbs, things = ('open', 'close', 'print', 'delete'), ('file', 'window', 'door', 'printer', 'table', 'page')
  first = [(f'Please {verb} the {thing} {where}', f'Bitte {verb} das {thing} {where}en')
           for verb, thing, where in itertools.product(verbs, things, ('here', 'there', 'below', 'above'))]
  more = [('Please   print', 'Bitte  das print'), ('Please 日', 'Bitte 日 das'), (first[0][0], 'Bitte ' + first[0][1])]
  monkeypatch.setattr(build.sources, 'FIRST', (source(build, 'a', first),))
  monkeypatch.setattr(build.sources, 'FURTHER', (source(build, 'b', more),))

  def run(*arguments):
    folder = tmp_path / f'run{len(arguments)}'
    monkeypatch.setattr(sys, 'argv', ['build', f'--output={folder}', '--pieces=40', *arguments])
    build.main()
    return {path.name: path for path in folder.iterdir() if path.is_file()}

  alone, both = run(), run('--further')
  assert set(alone) == {'train.tsv.gz', 'validation.tsv.gz', 'test.tsv.gz', 'spiece.model'}
  assert set(both) == {*alone, 'further.tsv.gz'}
  assert all(both[name].read_bytes() == path.read_bytes() for name, path in alone.items())
  rows = read(both['further.tsv.gz'])
  assert {build.pairs.split_of(english) for english, _ in more} == {'train'}
  assert sorted(rows) == [(first[0][0], 'Bitte ' + first[0][1], 'b'), ('Please print', 'Bitte das print', 'b')]
