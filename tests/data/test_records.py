import json

import pytest

from specdec_jax.data.records import read_records
from specdec_jax.errors import InputError


def test_records_keep_the_names_of_their_fields(tmp_path):
  (tmp_path / 'a.tsv').write_text('en\tde\na cat\teine Katze\n')
  (tmp_path / 'a.jsonl').write_text('{"en": "a cat", "de": "eine Katze", "n": "1"}\n')
  assert list(read_records(tmp_path / 'a.tsv')) == [{'en': 'a cat', 'de': 'eine Katze'}]
  assert list(read_records(str(tmp_path / 'a.jsonl'))) == [
      {'en': 'a cat', 'de': 'eine Katze', 'n': '1'}]


@pytest.mark.parametrize('name, lines, words', [
    ('b.tsv', ['en\tde', 'a cat'], r"b\.tsv', line 2: no text in field 'de'"),
    ('b.jsonl', ['{"en": "a"}', '{"en": 5}'], r"b\.jsonl', line 2: no text in field 'en'"),
    ('b.jsonl', ['{"en": "a"}', '[5]'], r'line 2: not a JSON object'),
    ('b.jsonl', ['{"en": "a"}', json.dumps({'en': '\ud800'})], r"line 2: the field 'en' has half a surrogate pair"),
    ('b.txt', ['a'], r'must end in \.tsv or \.jsonl')])
def test_bad_lines_are_named(tmp_path, name, lines, words):
  (tmp_path / name).write_text('\n'.join(lines))
  with pytest.raises(InputError, match=words):
    list(read_records(str(tmp_path / name)))
