"""pytorch_model.bin, with a stand-in for torch: what it may return or raise, and what the user is told."""

import pickle
import sys
import types

import numpy as np
import pytest

from specdec_jax.checkpoints.huggingface.torch_file import TorchFile
from specdec_jax.errors import CheckpointError

# The lines of torch 2.14's own texts that matter here.
ADVICE = 'Weights only load failed. Re-running `torch.load` with `weights_only` set to `False` will likely succeed\n'
MALICIOUS = ADVICE + '\nTrying to load unsupported GLOBAL posix.system whose module posix is blocked.\n'
NO_TENSORS = ADVICE + 'WeightsUnpickler error: \n\nUnsupported operand 149\n'


class Tensor:
  """As a torch.Tensor on the CPU."""

  def __init__(self, array, dtype='torch.float32'):
    self.array, self.dtype, self.shape = array, dtype, array.shape
    self.contiguous = lambda: self
    self.data_ptr = lambda: array.__array_interface__['data'][0]

  def view(self, dtype):
    return Tensor(self.array.view(dtype))

  def numpy(self):
    if self.dtype == 'torch.qint8':
      raise TypeError('Got unsupported ScalarType QInt8')
    return self.array


@pytest.fixture
def load(tmp_path, monkeypatch):
  """load(what torch.load returns or raises, the file's bytes) -> the TorchFile."""
  def make(found, content=b'PK...'):
    def torch_load(path, *, map_location, weights_only, mmap):
      assert weights_only is True and map_location == 'cpu' and mmap == (content[:2] == b'PK')
      if isinstance(found, Exception):
        raise found
      return found
    torch = types.SimpleNamespace(load=torch_load, Tensor=Tensor, int16=np.int16)
    monkeypatch.setitem(sys.modules, 'torch', torch)
    (tmp_path / 'pytorch_model.bin').write_bytes(content)
    return TorchFile(tmp_path / 'pytorch_model.bin')
  return make


@pytest.mark.parametrize('content', [b'PK...', b'\x80\x02...'])  # an archive, and the format before torch 1.6
def test_arrays(load, content):
  half = np.array([1, 2.5], np.float32)
  upper = (half.view(np.uint32) >> 16).astype(np.uint16)  # the bits of the same numbers in bfloat16
  file = load({'a': Tensor(half), 'b': Tensor(upper, 'torch.bfloat16')}, content)
  assert {n: (leaf.shape, leaf.dtype) for n, leaf in file.leaves.items()} == {
      'a': ((2,), 'float32'), 'b': ((2,), 'bfloat16')}
  assert file.read('a').tolist() == file.read('b').astype(np.float32).tolist() == [1, 2.5]


def test_a_tied_head_is_left_out_and_an_equal_one_is_not(load):
  weight = np.ones((2, 3), np.float32)
  assert load({'shared.weight': Tensor(weight), 'lm_head.weight': Tensor(weight)}).leaves.keys() == {'shared.weight'}
  assert len(load({'shared.weight': Tensor(weight), 'lm_head.weight': Tensor(weight.copy())}).leaves) == 2


@pytest.mark.parametrize('found, words', [
    (pickle.UnpicklingError(MALICIOUS), r'holds more than tensors: Python objects, which could run any program, are '
                                        r'never loaded.*GLOBAL posix\.system'),
    (pickle.UnpicklingError(NO_TENSORS), 'is damaged, or holds more than tensors'),
    (RuntimeError('PytorchStreamReader failed: central directory\nat line 3'), 'truncated, damaged or not a PyTorch'),
    (EOFError(), 'truncated, damaged or not a PyTorch file .EOFError'),
    ([Tensor(np.ones(2))], 'is a list, not a dictionary of tensors'), (None, 'is a NoneType'), (7, 'is a int'),
    ({}, 'holds no tensors'), ({'model': {'a': Tensor(np.ones(2))}}, "has 'model', a dict, among its tensors"),
    ({'a': 1}, "has 'a', a int"), ({1: Tensor(np.ones(2))}, "has '1', a Tensor"),
    ({'a': Tensor(np.ones(2)), 'step': None}, "has 'step', a NoneType")])
def test_what_is_no_state_dict_is_told_as_what_it_is(load, found, words):
  with pytest.raises(CheckpointError, match=words) as caught:
    load(found)
  text = str(caught.value)
  assert '\n' not in text and 'pytorch_model.bin' in text and 'weights_only' not in text


def test_tensors_that_are_no_arrays(load):
  file = load({'a': Tensor(np.ones(2), 'torch.qint8')})
  with pytest.raises(CheckpointError, match="'a' of .* is no plain array .Got unsupported ScalarType"):
    file.read('a')


def test_without_torch_one_line_says_what_to_do(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, 'torch', None)
  (tmp_path / 'pytorch_model.bin').write_bytes(b'PK')
  with pytest.raises(CheckpointError, match='install torch, or convert'):
    TorchFile(tmp_path / 'pytorch_model.bin')
