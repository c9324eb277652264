"""Files of weights: which are opened, and which never."""

import json
import os

import numpy as np
import pytest
from etils import epath
from safetensors import numpy as safetensors

from specdec_jax.checkpoints.huggingface.weight_files import open_files
from specdec_jax.errors import CheckpointError


@pytest.fixture
def shards(tmp_path):
  """shards(weight_map) writes the index beside two shards, in a directory with brackets in its name."""
  folder = tmp_path / '[1] *'
  folder.mkdir()
  safetensors.save_file({'a': np.zeros(2)}, folder / 'one.safetensors')
  safetensors.save_file({'b': np.ones(2)}, folder / 'two.safetensors')
  safetensors.save_file({'c': np.ones(2)}, tmp_path / 'outside.safetensors')

  def write(weight_map):
    (folder / 'model.safetensors.index.json').write_text(json.dumps({'weight_map': weight_map}))
    return epath.Path(folder)
  return write


def test_shards_are_read_from_where_the_index_says(shards):
  files = open_files(shards({'a': 'one.safetensors', 'b': 'two.safetensors'}))
  assert files.keys() == {'a', 'b'} and files['b'].read('b').tolist() == [1, 1]


@pytest.mark.parametrize('shard', [
    5, None, True, [], {}, 1.5, '', '.', '..', '../outside.safetensors', 'x/../../outside.safetensors', '/etc/passwd',
    '..\\outside.safetensors', 'one\0.safetensors', 'deep/one.safetensors'], ids=repr)
def test_names_that_are_no_file_beside_the_index(shards, tmp_path, shard):
  names = [shard, str(tmp_path / 'outside.safetensors')] if shard == '/etc/passwd' else [shard]
  for name in names:
    with pytest.raises(CheckpointError, match='which is not the name of a file beside it|names the shard') as caught:
      open_files(shards({'a': 'one.safetensors', 'c': name}))
    assert '\n' not in str(caught.value)


@pytest.mark.parametrize('places, words', [
    ({}, 'has no weight_map'), ([], 'has no weight_map'), (None, 'has no weight_map'), ('x', 'has no weight_map'),
    ({'a': 'none.safetensors'}, "none.safetensors' is missing"), ({'b': 'one.safetensors'}, "lacks 'b'")])
def test_indexes_that_promise_too_much_or_nothing(shards, places, words):
  with pytest.raises(CheckpointError, match=words):
    open_files(shards(places))


def test_a_directory_without_weights(tmp_path):
  with pytest.raises(CheckpointError, match=r'has no model.safetensors, .* or flax_model.msgpack'):
    open_files(epath.Path(tmp_path))


@pytest.mark.parametrize('name', ['model.safetensors', 'model.safetensors.index.json', 'one.safetensors'])
@pytest.mark.parametrize('kind', ['pipe', 'directory'])
def test_pipes_and_directories_in_place_of_files(shards, name, kind):
  folder = shards({'a': 'one.safetensors'})
  if name == 'model.safetensors':
    (folder / 'model.safetensors.index.json').unlink()
  (folder / name).unlink(missing_ok=True)
  os.mkfifo(folder / name) if kind == 'pipe' else (folder / name).mkdir()
  with pytest.raises(CheckpointError, match=f"{name}' is a {kind}, not a file"):
    open_files(folder)
