"""safetensors files: what the safetensors library refuses is refused, what it takes is read as it reads it."""

import json
import os
import pathlib

import hypothesis
import numpy as np
import pytest
import safetensors
from etils import epath
from hypothesis import strategies as st
from safetensors import numpy as safetensors_numpy

from specdec_jax.checkpoints.huggingface.safetensors_file import SafetensorsFile
from specdec_jax.errors import CheckpointError

A = {'dtype': 'F32', 'shape': [2, 3], 'data_offsets': [0, 24]}
B = {'dtype': 'F16', 'shape': [4], 'data_offsets': [24, 32]}
EMPTY = {'dtype': 'F32', 'shape': [0], 'data_offsets': [24, 24]}
BODY = bytes(range(32))


def write(path, header, body=BODY, length=None):
  header = header if isinstance(header, bytes) else json.dumps(header).encode()
  path.write_bytes((len(header) if length is None else length).to_bytes(8, 'little') + header + body)


def library_names(path):
  """What the safetensors library reads; None where it refuses."""
  try:
    with safetensors.safe_open(path, 'np') as f:
      return sorted(f.keys())
  except safetensors.SafetensorError:
    return None


def our_names(path):
  try:
    return sorted(SafetensorsFile(epath.Path(path)).leaves)
  except CheckpointError as e:
    assert '\n' not in str(e) and str(path) in str(e)
    return None


@pytest.mark.parametrize('header', [
    {}, {'a': A, 'b': B}, {'b': B, 'a': A}, {'a': A, 'e': EMPTY, 'b': B},
    {'__metadata__': {'format': 'pt'}, 'a': A, 'b': B},
    {'__metadata__': None, 'a': A, 'b': B}, {'a': {**A, 'more': 1}, 'b': B},
    {'a': {**A, 'shape': [], 'data_offsets': [0, 4]}},
    {'a': {**A, 'dtype': 'I64', 'shape': [4], 'data_offsets': [0, 32]}},
    {'a': {**A, 'dtype': 'F4', 'shape': [64], 'data_offsets': [0, 32]}}], ids=range(10))
def test_what_the_library_reads_is_read(tmp_path, header):
  end = max((e['data_offsets'][1] for n, e in header.items() if e and n != '__metadata__'), default=0)
  write(tmp_path / 'x', header, BODY[:end])
  assert our_names(tmp_path / 'x') == library_names(tmp_path / 'x') == sorted(header.keys() - {'__metadata__'})


REFUSED = [
    {'a': A}, {'a': A, 'b': {**B, 'data_offsets': [0, 8]}}, {'a': A, 'b': {**B, 'data_offsets': [20, 28]}},
    {'a': A, 'b': {**B, 'data_offsets': [32, 24]}}, {'a': A, 'b': {**B, 'data_offsets': [-8, 0]}},
    {'a': A, 'b': {**B, 'data_offsets': [24.0, 32.0]}}, {'a': A, 'b': {**B, 'data_offsets': ['24', '32']}},
    {'a': A, 'b': {**B, 'data_offsets': [24]}}, {'a': A, 'b': {**B, 'data_offsets': [24, 32, 40]}},
    {'a': A, 'b': {**B, 'data_offsets': None}}, {'a': A, 'b': {**B, 'data_offsets': [24, 2 ** 70]}},
    {'a': A, 'b': {**B, 'dtype': 'F32'}}, {'a': A, 'b': {**B, 'dtype': 'f16'}}, {'a': A, 'b': {**B, 'dtype': 7}},
    {'a': A, 'b': {**B, 'dtype': None}}, {'a': A, 'b': {**B, 'shape': [5]}}, {'a': A, 'b': {**B, 'shape': [-4]}},
    {'a': A, 'b': {**B, 'shape': ['4']}}, {'a': A, 'b': {**B, 'shape': [4.0]}}, {'a': A, 'b': {**B, 'shape': [True]}},
    {'a': A, 'b': {**B, 'shape': 4}}, {'a': A, 'b': {**B, 'shape': [2 ** 63, 2]}},
    {'a': A, 'b': {**B, 'shape': [2 ** 33, 2 ** 33, 0], 'data_offsets': [24, 24]}}, {'a': A, 'b': {'dtype': 'F16'}},
    {'a': A, 'b': None}, {'a': A, 'b': 7}, {'__metadata__': {'x': 1}, 'a': A, 'b': B},
    {'__metadata__': [], 'a': A, 'b': B}, {'a': {**A, 'data_offsets': [8, 32]}},
    b'', b'{', b'{}', b' {}', b'[]', b'null', b'{}x', b'\xff{}', b'{"a": NaN}',
    json.dumps({'a': A, 'b': B}).encode() + b'\0', b'{"a":' * 200 + b'1' + b'}' * 200,
    b'{"\\ud800": ' + json.dumps(A).encode() + b', "b": ' + json.dumps(B).encode() + b'}']


@pytest.mark.parametrize('header', REFUSED, ids=range(len(REFUSED)))
def test_what_the_library_refuses_is_refused(tmp_path, header):
  write(tmp_path / 'x', header)
  assert library_names(tmp_path / 'x') is None and our_names(tmp_path / 'x') is None


def test_a_name_that_stands_twice_is_refused(tmp_path):
  """The library takes the last of them."""
  write(tmp_path / 'x', f'{{"a": {json.dumps(A)}, "b": {json.dumps(B)}, "b": {json.dumps(B)}}}'.encode())
  assert our_names(tmp_path / 'x') is None


@pytest.mark.parametrize('length', [0, 1, 10 ** 6, 10 ** 8 + 1, 2 ** 63, 2 ** 64 - 1])
def test_lengths_of_the_header(tmp_path, length):
  write(tmp_path / 'x', {'a': A, 'b': B}, length=length)
  assert library_names(tmp_path / 'x') is None and our_names(tmp_path / 'x') is None


def test_a_header_of_ten_gigabytes_is_not_read(tmp_path):
  with (tmp_path / 'x').open('wb') as f:
    f.write((10 << 30).to_bytes(8, 'little') + b'{')
    f.truncate(11 << 30)
  with pytest.raises(CheckpointError, match='promise a header of 10,737,418,240 bytes'):
    SafetensorsFile(epath.Path(tmp_path / 'x'))


def test_every_truncation_is_seen(tmp_path):
  write(tmp_path / 'whole', {'a': A, 'b': B})
  content = (tmp_path / 'whole').read_bytes()
  for length in range(len(content)):
    (tmp_path / 'x').write_bytes(content[:length])
    assert our_names(tmp_path / 'x') is None


FIXTURE = pathlib.Path(__file__).parents[2] / 'fixtures' / 'hf' / 't5_v1_1' / 'draft' / 'model.safetensors'


@hypothesis.settings(max_examples=300, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture])
@hypothesis.given(st.data())
def test_damaged_headers_as_the_library_takes_them(tmp_path, data):
  """Bits flipped and bytes changed in the header of a real file: never read where the library refuses."""
  content = bytearray(FIXTURE.read_bytes())
  end = 8 + int.from_bytes(content[:8], 'little')
  for _ in range(data.draw(st.integers(1, 3))):
    at = data.draw(st.integers(0, end - 1))
    content[at] = data.draw(st.sampled_from([content[at] ^ 1 << bit for bit in range(8)] + list(b'0123456789,[]{}" ')))
  (tmp_path / 'x').write_bytes(content)
  theirs, ours = library_names(tmp_path / 'x'), our_names(tmp_path / 'x')
  assert ours == theirs or ours is None
  if theirs is not None and len(set(theirs)) == len(theirs) and ours is None:
    assert_stands_twice(bytes(content))


def assert_stands_twice(content):
  """The one thing that is refused here and not there."""
  with pytest.raises(ValueError, match='twice'):
    json.loads(content[8:8 + int.from_bytes(content[:8], 'little')],
               object_pairs_hook=lambda pairs: dict(pairs) if len(dict(pairs)) == len(pairs) else raise_twice())


def raise_twice():
  raise ValueError('twice')


def test_arrays_are_those_of_the_library():
  file, theirs = SafetensorsFile(epath.Path(FIXTURE)), safetensors_numpy.load_file(FIXTURE)
  assert file.leaves.keys() == theirs.keys()
  for name, value in theirs.items():
    np.testing.assert_array_equal(file.read(name), value)
    assert (file.leaves[name].shape, file.leaves[name].dtype) == (value.shape, value.dtype.name)


def test_pipes_are_not_waited_for(tmp_path):
  os.mkfifo(tmp_path / 'x')
  with pytest.raises(CheckpointError, match='is a pipe, not a file'):
    SafetensorsFile(epath.Path(tmp_path / 'x'))


def test_a_file_that_shrinks_after_it_was_opened(tmp_path):
  write(tmp_path / 'x', {'a': A, 'b': B})
  file = SafetensorsFile(epath.Path(tmp_path / 'x'))
  os.truncate(tmp_path / 'x', 100)
  with pytest.raises(CheckpointError, match="'b' of '.*x' is no longer there"):
    file.read('b')
