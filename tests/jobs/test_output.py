import json
import os

import pytest

from specdec_jax.errors import OutputError
from specdec_jax.jobs import output


def test_the_environment_can_be_saved():
  found = json.loads(json.dumps(output.environment()))
  assert {'jax', 'numpy', 'specdec_jax'} <= set(found['packages'])
  assert found['device']['count'] >= 1 and found['device']['processes'] == 1 and found['jax_config']


def test_arguments_that_are_no_utf8_can_be_saved(tmp_path):
  """As sys.argv has them."""
  output.write_json(str(tmp_path), 'a.json', {'command': ['--x=\udce4', 'ä']})
  assert output.read_json(str(tmp_path), 'a.json') == {'command': ['--x=\udce4', 'ä']}
  assert os.listdir(tmp_path) == ['a.json']


@pytest.mark.parametrize('content, reason', [
    ('', 'it is empty'), ('{"bind', 'Unterminated'), ('[]', 'not a JSON object'), ('5', 'not a JSON object'),
    ('[' * 100_000, 'recursion'), ('\xff', 'damaged')])
def test_a_damaged_record_is_named(tmp_path, content, reason):
  (tmp_path / 'run.json').write_bytes(content.encode('latin-1'))
  with pytest.raises(OutputError, match=rf"^'{tmp_path}/run\.json' is damaged .*{reason}|{reason}") as caught:
    output.read_json(str(tmp_path), 'run.json')
  assert '\n' not in str(caught.value) and 'restore it, or name another' in str(caught.value)


def test_a_record_that_is_no_file_is_named(tmp_path):
  (tmp_path / 'run.json').mkdir()
  with pytest.raises(OutputError, match=r"run\.json' is damaged .*Is a directory"):
    output.read_json(str(tmp_path), 'run.json')
  with pytest.raises(OutputError, match=r"run\.json' cannot be written .*a directory has this name"):
    output.write_json(str(tmp_path), 'run.json', {})
