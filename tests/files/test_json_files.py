"""JSON of other programs: an object or one line."""

import json

import pytest

from specdec_jax.errors import CheckpointError
from specdec_jax.files import json_files

DEEP = b'[' * 200_000 + b']' * 200_000


def test_an_object_is_read(tmp_path):
  (tmp_path / 'a').write_text('{"a": [1, 2.5, null], "b": NaN}')
  found = json_files.read_json(tmp_path / 'a')
  assert found['a'] == [1, 2.5, None] and found['b'] != found['b']


@pytest.mark.parametrize('content, words', [
    (b'', 'truncated or not JSON'), (b'{"a"', 'truncated'), (b'{}x', 'not JSON'), (b'[1]', 'not a JSON object'),
    (b'"a"', 'not a JSON object'), (b'\xff\xfe{}', 'not JSON'), (b'{"a": 1, "a": 2}', "'a' stands twice"),
    (b'{"b": {"x": 1, "x": 1}}', "'x' stands twice"), (b'{"a": ' + b'9' * 5000 + b'}', 'not JSON'),
    (DEEP, 'nested too deeply'), (b'{"a":' + DEEP + b'}', 'nested too deeply')], ids=range(11))
def test_what_is_none_is_one_line(tmp_path, content, words):
  (tmp_path / 'a').write_bytes(content)
  with pytest.raises(CheckpointError, match=words) as caught:
    json_files.read_json(tmp_path / 'a', 'index')
  assert '\n' not in str(caught.value) and str(tmp_path / 'a') in str(caught.value)


def test_constants_may_be_refused():
  with pytest.raises(CheckpointError, match='NaN is not a JSON number'):
    json_files.parse(b'{"a": NaN}', 'it', constants=False)


def test_a_larger_file_is_not_read(tmp_path):
  with (tmp_path / 'a').open('wb') as f:
    f.truncate(10 << 30)  # sparse: ten gigabytes of zeros
  with pytest.raises(CheckpointError, match="The index '.*a' has 10,737,418,240 bytes; .* at most 100,000,000"):
    json_files.read_json(tmp_path / 'a', 'index')


def test_many_names_are_compared_in_one_pass():
  names = {f'name {i}': i for i in range(100_000)}
  text = json.dumps(names)[:-1] + ', "name 77": 0}'
  with pytest.raises(CheckpointError, match="'name 77' stands twice"):
    json_files.parse(text.encode(), 'it')
