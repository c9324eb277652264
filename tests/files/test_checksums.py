"""files.json: every change of a file that it lists is seen."""

import hashlib
import json
import os

import pytest
from etils import epath

from specdec_jax.errors import CheckpointError
from specdec_jax.files import checksums


@pytest.fixture
def sealed(tmp_path):
  (tmp_path / 'deep' / 'er').mkdir(parents=True)
  (tmp_path / 'deep' / 'er' / 'b').write_bytes(b'second')
  (tmp_path / 'a').write_bytes(b'first' * 1000)
  (tmp_path / '[1] *').write_bytes(b'')
  checksums.seal(epath.Path(tmp_path))
  return epath.Path(tmp_path)


def error_of(directory, **options):
  with pytest.raises(CheckpointError) as caught:
    checksums.check(directory, **options)
  assert '\n' not in str(caught.value)
  return str(caught.value)


def test_sizes_and_checksums_are_those_of_the_files(sealed):
  noted = json.loads((sealed / 'files.json').read_text())
  assert noted == {
      'a': {'bytes': 5000, 'sha256': hashlib.sha256(b'first' * 1000).hexdigest()},
      'deep/er/b': {'bytes': 6, 'sha256': hashlib.sha256(b'second').hexdigest()},
      '[1] *': {'bytes': 0, 'sha256': hashlib.sha256(b'').hexdigest()}}
  assert checksums.check(sealed) == {'a': 5000, 'deep/er/b': 6, '[1] *': 0}


def test_progress_counts_every_byte_once(sealed):
  seen = []
  checksums.check(sealed, progress=lambda *x: seen.append(x))
  assert seen[0] == (0, 5006) and seen[-1] == (5006, 5006)


def test_changes_are_named(sealed):
  (sealed / 'deep/er/b').write_bytes(b'secOnd')
  assert "deep/er/b' is not as it was written" in error_of(sealed)
  assert checksums.check(sealed, contents=False)['a'] == 5000
  (sealed / 'deep/er/b').write_bytes(b'sec')
  assert "deep/er/b' has 3 bytes of 6" in error_of(sealed)
  (sealed / 'deep/er/b').unlink()
  assert "deep/er/b' is missing" in error_of(sealed)
  os.mkfifo(sealed / 'deep/er/b')
  assert 'a pipe, not a file' in error_of(sealed)


def test_other_files_do_not_matter(sealed):
  (sealed / '.DS_Store').write_bytes(b'x')
  assert len(checksums.check(sealed)) == 3


@pytest.mark.parametrize('name, entry', [
    ('../a', {}), ('/etc/passwd', {}), ('a/../../b', {}), ('', {}), ('.', {}), ('deep//b', {}), ('a', {'bytes': -1}),
    ('a', {'bytes': '5'}), ('a', {'bytes': True}), ('a', {'sha256': 'ABC'}), ('a', {'sha256': 7}), ('a', None),
    ('a', [])])
def test_a_damaged_list_is_named(sealed, name, entry):
  whole = {'bytes': 5000, 'sha256': '0' * 64}
  (sealed / 'files.json').write_text(json.dumps({name: whole | entry if isinstance(entry, dict) else entry}))
  assert "files.json' is damaged at" in error_of(sealed, contents=False)


def test_bits_of_the_list_and_of_the_files_count(sealed):
  for name in ('files.json', 'deep/er/b'):
    content = (sealed / name).read_bytes()
    for bit in range(0, 8 * len(content), 7):
      changed = bytearray(content)
      changed[bit // 8] ^= 1 << bit % 8
      (sealed / name).write_bytes(bytes(changed))
      error_of(sealed)
    (sealed / name).write_bytes(content)
  checksums.check(sealed)
