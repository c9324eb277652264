import gzip
import json

import pytest

from specdec_jax.data.examples import Example, check_ids, read_examples, texts_of
from specdec_jax.errors import InputError, MissingError, SettingError


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


def test_token_ids_in_json_lines(tmp_path):
  path = write(tmp_path / 'a.jsonl', '{"tokens": [5, 0, 1], "de": "eins"}\n{"text": "a", "tokens": [7]}\n')
  ids, text = read_examples(path)
  assert ids == Example(0, None, tokens=(5, 0, 1)) and ids.source == [5, 0, 1]
  assert text == Example(1, 'a') and text.source == 'a'  # such as a line of predictions.jsonl
  assert read_examples(path, tokens_field='tokens') == [ids, Example(1, None, tokens=(7,))]
  path = write(tmp_path / 'b.jsonl', '{"text": "a", "ids": [7], "id": "x", "de": "b"}\n')
  assert read_examples(path, tokens_field='ids', text_field='text', reference_field='de') == [
      Example('x', 'a', 'b', tokens=(7,))]
  with pytest.raises(InputError, match='Example 0 is given by token ids, and run needs texts'):
    texts_of([ids], 'text', 'run')


def test_limit(tmp_path):
  path = write(tmp_path / 'a.txt', 'a\nb\nc\n')
  assert [e.text for e in read_examples(path, limit=2)] == ['a', 'b']
  path = write(tmp_path / 'b.txt', 'a\nb\n\0\n')
  assert len(read_examples(path, limit=2)) == 2, 'what comes later is not looked at'


def test_embedded_test_set():
  examples = read_examples('embedded:ende/test.tsv.gz', reference_field=1)
  assert len(examples) == 995
  assert all(e.text and e.reference for e in examples)
  with pytest.raises(MissingError, match=r"no 'embedded:ende/other'.*embedded:ende/test.tsv"):
    read_examples('embedded:ende/other')


BAD = [
    ('a.csv', 'a', {}, r"a.csv': the name must end in .txt, .tsv or .jsonl"),
    ('a.txt', 'a', {'text_field': 1}, r"a.txt' is plain text"),
    ('a.tsv', 'a\tb\nc', {'reference_field': 1}, r"a.tsv', line 2: no column 1 for reference"),
    ('a.tsv', 'a\tb\n \tc', {}, r"line 2: the text is empty"),
    ('a.tsv', 'a\tb', {'text_field': 'en'}, r"no column 'en' in its header: a, b"),
    ('a.tsv', 'a\tx\nb\tx', {'id_field': 1}, r"line 2: id 'x' is taken by line 1"),
    ('a.jsonl', '{"text": "a"}\n{"text": ', {}, r"a.jsonl', line 2: not JSON"),
    ('a.jsonl', '["a"]', {}, r"line 1: not a JSON object"),
    ('a.jsonl', '{"txt": "a"}', {}, r"line 1: no field 'text'; it has txt"),
    ('a.jsonl', '{"text": "a"}', {'text_field': 0}, r"a.jsonl' has JSON lines, whose fields have names; 0 is none"),
    ('a.jsonl', '{"text": 3}', {}, r"line 1: the text is 3, not text"),
    ('a.jsonl', '{"text": null}', {}, r"line 1: the text is None, not text"),
    ('a.jsonl', '{"text": "a", "r": null}', {'reference_field': 'r'}, r"line 1: the reference is None, not text"),
    ('a.jsonl', '{"text": "a", "r": ["b"]}', {'reference_field': 'r'}, r"line 1: the reference is \['b'\], not text"),
    *[('a.jsonl', '{"text": "a", "id": ' + found + '}', {}, rf"line 1: the id is {shown}; use a whole number or text")
      for found, shown in (('[1]', r'\[1\]'), ('null', 'None'), ('true', 'True'), ('1.5', '1.5'), ('1e3', '1000.0'),
                           ('{}', '{}'), ('NaN', 'nan'))],
    ('a.jsonl', '{"text": "a"}\n{"text": "b", "id": ' + '7' * 5000 + '}', {},
     r"line 2: a number of thousands of digits; write it as text"),
    ('a.jsonl', '[' * 100_000, {}, r"line 1: JSON in too many brackets"),
    *[('a.jsonl', '{"tokens": ' + found + '}', {}, rf"line 1: the tokens are {shown}; use a list of ids")
      for found, shown in (('5', '5'), ('null', 'None'), ('"5 1"', "'5 1'"), ('[5, "1"]', r"\[5, '1'\]"),
                           ('[5, 1.0]', r'\[5, 1.0\]'), ('[-1]', r'\[-1\]'), ('[true]', r'\[True\]'), ('{}', '{}'),
                           ('[[5]]', r'\[\[5\]\]'), ('[4294967296]', r'\[4294967296\]'))],
    ('a.jsonl', '{"tokens": []}', {}, r"line 1: the list of tokens is empty"),
    ('a.jsonl', '{"text": "a"}', {'tokens_field': 'tokens'}, r"line 1: no field 'tokens'; it has text"),
    ('a.jsonl', '{"tokens": [5]}', {'text_field': 'text'}, r"line 1: no field 'text'; it has tokens"),
    ('a.jsonl', '{"tokens": [5]}', {'words': 3}, r"line 1: token ids, of which read_examples.words takes no words"),
    ('a.tsv', '5 1', {'tokens_field': 'tokens'}, r"a.tsv': token ids are read from JSON lines alone"),
    *[('a.jsonl', '{"text": "a", "r": "b"}\n' + line, {'reference_field': 'r'}, rf"line 2: the {name} has {what}")
      for field, name in (('text', 'text'), ('r', 'reference'), ('id', 'id'))
      for found, what in (('\\ud800x', r'half a surrogate pair \(\\ud800, character 2\), which is no text'),
                          ('\\u0000', r'a NUL character \(at 2\)'))
      for line in [json.dumps({'text': 't', 'r': 'r', 'id': 'i', field: 'a@'}).replace('@', found)]],
]


@pytest.mark.parametrize('name, content, options, message', BAD)
@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_faults_are_one_line_with_file_and_line(tmp_path, name, content, options, message, suffix):
  with pytest.raises(InputError, match=message.replace(f"{name}'", f"{name}{suffix}'")) as caught:
    read_examples(write(tmp_path / (name + suffix), content), **options)
  assert '\n' not in str(caught.value) and name in str(caught.value) and len(str(caught.value)) < 400


def test_several_bad_lines_are_told_at_once(tmp_path):
  lines = ['{"text": "a"}', '{', '{"text": ""}', '', '{"text": "a", "id": 0}', '{"text": 5}', '{}']
  with pytest.raises(InputError, match=r"a\.jsonl', line 2: not JSON .*; line 3: the text is empty; "
                                       r'line 5: id 0 is taken by line 1; and 2 more lines\.$'):
    read_examples(write(tmp_path / 'a.jsonl', '\n'.join(lines)))


@pytest.mark.parametrize('data, message', [
    (b'fine\nbr\xe4ken\n', r"a\.txt', line 2: not UTF-8 \(byte 3\)"),
    (b'fine\n\xed\xa0\x80\n', r"line 2: not UTF-8 \(byte 1\)"),  # half a surrogate pair as bytes
    (b'fine\nb\0\n', r"a\.txt', line 2: a NUL byte; the file is UTF-16 without a mark, or no text: save it as UTF-8"),
    ('zwei\nWörter\n'.encode('utf-16'), r"a\.txt' is UTF-16; save it as UTF-8 \(iconv -f UTF-16 -t UTF-8\)"),
    (b'\xfe\xff' + 'zwei'.encode('utf-16-be'), r'is UTF-16; save it'),
    ('zwei'.encode('utf-16-le'), r'line 1: a NUL byte'), ('zwei'.encode('utf-16-be'), r'line 1: a NUL byte'),
    ('zwei'.encode('utf-32'), r'is UTF-16; save it'), (b'\0\0\xfe\xff\0\0\0a', r'is UTF-32; save it')])
@pytest.mark.parametrize('suffix', ['', '.gz'])
def test_bytes_that_are_no_utf8_are_refused(tmp_path, data, message, suffix):
  path = tmp_path / f'a.txt{suffix}'
  path.write_bytes(gzip.compress(data) if suffix else data)
  with pytest.raises(InputError, match=message.replace('txt', f'txt{suffix}')):
    read_examples(path)


@pytest.mark.parametrize('damage', [
    lambda whole: whole[:-12], lambda whole: whole[:20], lambda whole: b'text', lambda whole: b'text\n' * 3,
    lambda whole: whole[:30] + bytes([whole[30] ^ 255]) + whole[31:], lambda whole: whole + b'junk',
    lambda whole: whole[:-8] + b'\1\2\3\4' + whole[-4:], lambda whole: b''.join([whole[:-4], b'\1\2\3\4'])])
def test_damaged_gzip_files_are_refused(tmp_path, damage):
  whole = gzip.compress(b''.join(b'text %d\n' % i for i in range(1000)))
  (tmp_path / 'b.txt.gz').write_bytes(damage(whole))
  with pytest.raises(InputError, match=r"b.txt.gz' is truncated or not gzip \(after line \d+: "):
    read_examples(tmp_path / 'b.txt.gz')


def test_things_that_are_no_files(tmp_path):
  with pytest.raises(MissingError, match="no input file at '.*none.txt'"):
    read_examples(tmp_path / 'none.txt')
  (tmp_path / 'a.txt').mkdir()
  with pytest.raises(InputError, match="input file '.*a.txt' is a directory, not a file"):
    read_examples(tmp_path / 'a.txt')


def test_home_folders_are_known(tmp_path, monkeypatch):
  monkeypatch.setenv('HOME', str(tmp_path))
  write(tmp_path / 'a.txt', 'a')
  assert read_examples('~/a.txt') == [Example(0, 'a')]


@pytest.mark.parametrize('setting, values', [
    ('limit', [0, -1, 1.5, '3', True, [1]]), ('words', [0, 1.5, 'x']),
    ('text_field', [0.5, -1, '', True, [0]]), ('reference_field', [0.5, -1, '']), ('id_field', [0.5, None.__class__]),
    ('tokens_field', [0, '', 5]),
    ('path', [5, None, '', b'a.txt', 'a\0.txt'])])
def test_wrong_settings_are_named(tmp_path, setting, values):
  path = write(tmp_path / 'a.tsv', 'a\tb')
  for value in values:
    with pytest.raises(SettingError, match=rf'^read_examples\.{setting} is '):
      read_examples(**{'path': path, setting: value})


def test_whole_floats_are_numbers(tmp_path):
  path = write(tmp_path / 'a.tsv', 'a\tb\nc\td')
  assert read_examples(path, text_field=1.0, limit=1.0) == [Example(0, 'b')]


@pytest.mark.parametrize('fields, words', [
    ((None, 'a'), 'Example None: the id is None'), ((1.5, 'a'), 'id is 1.5'), ((0, 5), 'Example 0: the text is 5'),
    ((0, 'a', 5), 'reference is 5'), ((0, 'a\0'), 'NUL'), ((0, '\ud800'), 'half a surrogate pair'),
    ((0, None), 'Example 0: the text is None'), ((0, None, None, [0.5]), 'the tokens are'),
    ((0, None, None, ()), 'the list of tokens is empty'),
    (('\udfff', 'a'), 'the id has half a surrogate pair'), ((0, 'a', 'b\ud800'), 'the reference has half')])
def test_examples_made_by_hand_are_checked(fields, words):
  with pytest.raises(InputError, match=words):
    Example(*fields)


def test_two_examples_of_one_id():
  check_ids([Example(0, 'a'), Example('0', 'a')])
  with pytest.raises(InputError, match="Two examples have the id 'x'"):
    check_ids([Example('x', 'a'), Example(0, 'a'), Example('x', 'b')])


def test_texts_or_references():
  examples = [Example(0, 'a', 'b'), Example('x', 'c')]
  assert texts_of(examples, 'text', 'run') == ['a', 'c']
  with pytest.raises(InputError, match='Example x has no reference'):
    texts_of(examples, 'reference', 'run')
  with pytest.raises(SettingError, match=r"run\.field is 'id'; it must be 'reference' or 'text'"):
    texts_of(examples, 'id', 'run')


def test_first_words(tmp_path):
  (tmp_path / 'a.txt').write_text('one two  three\nfour\n')
  assert [e.text for e in read_examples(tmp_path / 'a.txt', words=2)] == ['one two', 'four']


def test_a_file_is_read_each_time_and_not_kept(tmp_path):
  path = write(tmp_path / 'a.txt', 'a\nb\n')
  examples = read_examples(path)
  assert len(examples) == 2 and list(examples) == list(examples) == examples != read_examples(path, limit=1)
  write(path, 'c\n')
  assert [e.text for e in examples] == ['c']
  assert examples[0].text == 'c' and examples[-1:] == [Example(0, 'c')]
  write(path, 'd\n\0\n')
  assert [e.text for e in examples] == ['c'], 'what was asked for by place is kept'
  changed = write(tmp_path / 'b.jsonl', '{"text": "a"}\n')
  examples = read_examples(changed)
  write(changed, '{"text": 5}\n')
  with pytest.raises(InputError, match=r"b\.jsonl', line 1: the text is 5, not text; it was changed while it was read"):
    list(examples)
