import gzip
import json

import pytest

from specdec_jax.data.examples import Example, read_examples, read_records


def write(path, text):
  data = text.encode('utf-8')
  path.write_bytes(gzip.compress(data) if path.suffix == '.gz' else data)
  return path


@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_text_ids_are_line_numbers_and_blank_lines_are_left_out(tmp_path, suffix):
  path = write(tmp_path / f'a.txt{suffix}', '\ufeffone\r\n\n  two \u2028 halves\n')
  assert read_examples(path) == [Example(0, 'one'), Example(2, 'two \u2028 halves')]


@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_tsv_columns_by_number(tmp_path, suffix):
  path = write(tmp_path / f'a.tsv{suffix}', 'Hello\tHallo\tx\n"Quoted\tGut\ty\n')
  assert read_examples(path) == [Example(0, 'Hello'), Example(1, '"Quoted')]
  assert read_examples(path, text_field=1, reference_field=0, id_field=2) == [
      Example('x', 'Hallo', 'Hello'), Example('y', 'Gut', '"Quoted')]


def test_tsv_columns_by_header(tmp_path):
  path = write(tmp_path / 'a.tsv', 'id\ten\tde\n7\tHello\tHallo\n')
  assert read_examples(path, text_field='en', reference_field='de', id_field='id') == [
      Example('7', 'Hello', 'Hallo')]


def test_jsonl_fields_and_own_ids(tmp_path):
  records = [{'id': 'a', 'text': 'one', 'de': 'eins'}, {'id': 5, 'text': 'two', 'de': 'zwei'}]
  path = write(tmp_path / 'a.jsonl', '\n'.join(map(json.dumps, records)))
  assert read_examples(path) == [Example('a', 'one'), Example(5, 'two')]
  assert read_examples(path, text_field='de', reference_field='text')[1] == Example(
      5, 'zwei', 'two')


def test_limit(tmp_path):
  path = write(tmp_path / 'a.txt', 'a\nb\nc\n')
  assert [e.text for e in read_examples(path, limit=2)] == ['a', 'b']
  with pytest.raises(ValueError, match='limit is 0'):
    read_examples(path, limit=0)


def test_embedded_test_set():
  examples = read_examples('embedded:ende/test.tsv.gz', reference_field=1)
  assert len(examples) == 995
  assert all(e.text and e.reference for e in examples)
  with pytest.raises(FileNotFoundError, match=r"no 'embedded:ende/other'.*embedded:ende/test.tsv"):
    read_examples('embedded:ende/other')


@pytest.mark.parametrize('name, content, options, message', [
    ('a.csv', 'a', {}, r"a.csv': the name must end in .txt, .tsv or .jsonl"),
    ('a.txt', 'a', {'text_field': 1}, r"a.txt' is plain text"),
    ('a.tsv', 'a\tb\nc', {'reference_field': 1}, r"a.tsv', line 2: no column 1 for reference"),
    ('a.tsv', 'a\tb\n \tc', {}, r"line 2: the text is empty"),
    ('a.tsv', 'a\tb', {'text_field': 'en'}, r"no column 'en' in its header: a, b"),
    ('a.tsv', 'a\tx\nb\tx', {'id_field': 1}, r"line 2: id 'x' is taken by line 1"),
    ('a.jsonl', '{"text": "a"}\n{"text": ', {}, r"a.jsonl', line 2: not JSON"),
    ('a.jsonl', '["a"]', {}, r"line 1: not a JSON object"),
    ('a.jsonl', '{"txt": "a"}', {}, r"line 1: no field 'text'; it has txt"),
    ('a.jsonl', '{"text": 3}', {}, r"line 1: the text is 3, not text"),
    ('a.jsonl', '{"text": "a", "id": [1]}', {}, r"line 1: the id is \[1\]"),
])
def test_faults_are_one_line_with_file_and_line(tmp_path, name, content, options, message):
  with pytest.raises(ValueError, match=message) as caught:
    read_examples(write(tmp_path / name, content), **options)
  assert '\n' not in str(caught.value)


def test_broken_bytes(tmp_path):
  (tmp_path / 'a.txt').write_bytes(b'fine\nbr\xe4ken\n')
  with pytest.raises(ValueError, match=r"a.txt', line 2: not UTF-8 \(byte 3\)"):
    read_examples(tmp_path / 'a.txt')
  whole = gzip.compress(b'text\n' * 100)
  (tmp_path / 'b.txt.gz').write_bytes(whole[:-12])
  with pytest.raises(ValueError, match=r"b.txt.gz' is truncated or not gzip"):
    read_examples(tmp_path / 'b.txt.gz')
  with pytest.raises(FileNotFoundError, match='none.txt'):
    read_examples(tmp_path / 'none.txt')


def test_records_keep_the_names_of_their_fields(tmp_path):
  (tmp_path / 'a.tsv').write_text('en\tde\na cat\teine Katze\n')
  (tmp_path / 'a.jsonl').write_text('{"en": "a cat", "de": "eine Katze", "n": "1"}\n')
  assert list(read_records(tmp_path / 'a.tsv')) == [{'en': 'a cat', 'de': 'eine Katze'}]
  assert list(read_records(str(tmp_path / 'a.jsonl'))) == [
      {'en': 'a cat', 'de': 'eine Katze', 'n': '1'}]
  (tmp_path / 'b.tsv').write_text('en\tde\na cat\n')
  with pytest.raises(ValueError, match=r"b\.tsv', line 2: no text in field 'de'"):
    list(read_records(str(tmp_path / 'b.tsv')))
  with pytest.raises(ValueError, match=r'must end in \.tsv or \.jsonl'):
    list(read_records('a.txt'))


def test_first_words(tmp_path):
  (tmp_path / 'a.txt').write_text('one two  three\nfour\n')
  assert [e.text for e in read_examples(tmp_path / 'a.txt', words=2)] == ['one two', 'four']
  with pytest.raises(ValueError, match='words is 0'):
    read_examples(tmp_path / 'a.txt', words=0)
