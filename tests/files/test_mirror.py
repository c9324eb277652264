"""A directory on an object store: shards written whole, the manifest last, one process at a time."""

import dataclasses
import hashlib
import json
import os
import pathlib
import re
import threading
import time

import object_store
import pytest
from etils import epath

from specdec_jax.errors import OutputError
from specdec_jax.files import mirror
from specdec_jax.files.owners import this_process

REMOTE = epath.Path('gs://bucket/out')


@pytest.fixture
def store(monkeypatch):
  for name, value in {'SETTLE': 0.01, 'BEAT': 0.02, 'INTERVAL': 0.02, 'PATIENCE': 0.3, 'TROUBLE': 0.2}.items():
    monkeypatch.setattr(mirror, name, value)
  return object_store.replace(monkeypatch)


def mirrored(lost=lambda reason: None):
  return mirror.mirrored(REMOTE, {'lines.jsonl'}, 'process_', lost)


def wait_for(condition):
  end = time.monotonic() + 20
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.01)


def append(folder, text):
  with open(f'{folder}/lines.jsonl', 'a', encoding='utf-8') as f:
    f.write(text)


def names(store):
  return sorted(name.removeprefix('gs://bucket/out/') for name in store.objects)


def test_what_grows_comes_in_shards_of_whole_lines_and_the_manifest_last(store):
  with mirrored() as (folder, _):
    assert mirror.shown(f'{folder}/a') == 'gs://bucket/out/a' and mirror.shown('/x') == '/x'
    append(folder, 'one\ntw')
    pathlib.Path(folder, 'run.json').write_text('{}')
    wait_for(lambda: 'lines.jsonl.00000' in names(store) and 'run.json' in names(store))
    append(folder, 'o\nthree\n')
    wait_for(lambda: 'lines.jsonl.00001' in names(store))
    assert names(store) == ['.lock.json', 'lines.jsonl.00000', 'lines.jsonl.00001', 'run.json']
    shards = [store.objects[f'gs://bucket/out/lines.jsonl.0000{i}'] for i in range(2)]
    assert shards == [b'one\n', b'two\nthree\n']
    os.rename(f'{folder}/lines.jsonl', f'{folder}/final.jsonl')
    pathlib.Path(folder, 'process_1').mkdir()
    pathlib.Path(folder, 'process_1', 'x').write_text('another process has it')
  assert names(store) == ['final.jsonl', 'manifest.json', 'run.json'] and not os.path.exists(folder)
  files = json.loads(store.objects['gs://bucket/out/manifest.json'])['files']
  content = b'one\ntwo\nthree\n'
  assert store.objects['gs://bucket/out/final.jsonl'] == content
  assert files['final.jsonl'] == {'bytes': len(content), 'sha256': hashlib.sha256(content).hexdigest()}
  assert [n for n in store.written if not n.endswith(mirror.MARK)][-1] == 'gs://bucket/out/manifest.json'


def test_the_next_process_finds_what_was_there_and_goes_on(store):
  with pytest.raises(KeyError), mirrored() as (folder, _):
    append(folder, 'one\n')
    raise KeyError
  assert names(store) == ['lines.jsonl.00000']
  store.objects['gs://bucket/out/process_1/lines.jsonl.00000'] = b'three\n'
  with pytest.raises(KeyError), mirrored() as (folder, _):
    assert pathlib.Path(folder, 'lines.jsonl').read_text() == 'one\n'
    assert pathlib.Path(folder, 'process_1', 'lines.jsonl').read_text() == 'three\n'
    append(folder, 'two\n')
    raise KeyError
  assert names(store) == ['lines.jsonl.00000', 'lines.jsonl.00001', 'process_1/lines.jsonl.00000']
  with mirrored() as (folder, _):
    assert pathlib.Path(folder, 'lines.jsonl').read_text() == 'one\ntwo\n'


def test_a_second_process_is_refused_by_name(store):
  words = rf"'gs://bucket/out' is in use by process {os.getpid()} on .*since"
  with mirrored(), pytest.raises(OutputError, match=words), mirrored():
    pass
  with mirrored():
    pass


def test_the_mark_of_another_machine_is_watched(store, monkeypatch):
  theirs = dataclasses.replace(this_process(flock=False), boot='another', host='far')
  mirror._mark(REMOTE, theirs, 0)
  reads = mirror._content
  with monkeypatch.context() as patch, pytest.raises(OutputError, match=r'in use by process \d+ on far'):
    renewed = lambda remote: (mirror._mark(remote, theirs, time.monotonic_ns()), reads(remote))[1]
    patch.setattr(mirror, '_content', renewed)
    with mirrored():
      pass
  lost = []
  with mirrored(lost.append):  # nobody renews it
    mirror._mark(REMOTE, theirs, 1)
    wait_for(lambda: lost)
  assert re.search("'gs://bucket/out' was taken over by process .* on far", lost[0])


def test_what_cannot_be_written_is_named_and_kept_here(store, capsys):
  store.refused = ('run.json',)
  lost = []
  words = r"'gs://bucket/out/run\.json' cannot be read or written \(403"
  with pytest.raises(OutputError, match=words) as caught, mirrored(lost.append) as (folder, _):
    pathlib.Path(folder, 'run.json').write_text('{}')
    wait_for(lambda: lost)
  assert 'run.json' in lost[0] and f"What was not copied is in '{folder}'" in str(caught.value)
  assert pathlib.Path(folder, 'run.json').exists() and '.lock.json' not in names(store)
  with pytest.raises(KeyError), mirrored() as (folder, _):
    pathlib.Path(folder, 'run.json').write_text('{}')
    raise KeyError
  assert f"What was not copied is in '{folder}'" in capsys.readouterr().err


def test_an_end_without_finally_copies_and_gives_up(store):
  with mirrored() as (folder, release):
    append(folder, 'one\n')
    release()
    assert names(store) == ['lines.jsonl.00000']


def test_a_mark_that_is_being_written_does_not_outlive_the_end(store, monkeypatch):
  begun, mark = threading.Event(), mirror._mark

  def slow(remote, owner, beat):
    if beat:
      begun.set()
      time.sleep(0.1)
    mark(remote, owner, beat)

  monkeypatch.setattr(mirror, '_mark', slow)
  with mirrored():
    begun.wait(20)
  time.sleep(0.3)
  assert not any(name.endswith(mirror.MARK) for name in store.objects)
