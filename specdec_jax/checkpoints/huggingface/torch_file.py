"""pytorch_model.bin, where torch is installed; the file is mapped, not read whole, and no code in it is run."""

import os
import pickle
from typing import Any

import numpy as np

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import dtype_of, first_line
from specdec_jax.errors import CheckpointError
from specdec_jax.files.reading import size_of


class TorchFile:
  """One file; an `lm_head` that is the embedding itself (tied) is left out.

  Attributes:
    leaves: {name in the file: Leaf}.
  """

  def __init__(self, path: os.PathLike):
    self._path = path
    size_of(path, 'PyTorch file', error=CheckpointError)
    self._tensors = _tensors_of(path)
    head, shared = self._tensors.get('lm_head.weight'), self._tensors.get('shared.weight')
    if head is not None and shared is not None and head.data_ptr() == shared.data_ptr():
      self._tensors.pop('lm_head.weight')
    self.leaves = {name: Leaf(tuple(t.shape), str(t.dtype).removeprefix('torch.'))
                   for name, t in self._tensors.items()}

  def read(self, name: str) -> np.ndarray:
    import torch
    try:
      tensor = self._tensors[name].contiguous()
      if self.leaves[name].dtype == 'bfloat16':
        return tensor.view(torch.int16).numpy().view(dtype_of('bfloat16'))
      return tensor.numpy()
    except (RuntimeError, TypeError) as e:  # sparse, quantised, without contents, ...
      raise CheckpointError(f"'{name}' of '{self._path}' is no plain array ({first_line(e)}).") from e


def _tensors_of(path: os.PathLike) -> dict[str, Any]:
  try:
    import torch
  except ImportError:
    raise CheckpointError(
        f"'{path}' can only be read where torch is installed; install torch, or convert the "
        "checkpoint to safetensors with transformers' save_pretrained.") from None
  try:
    # A zip archive begins so, torch's own format since 1.6; an older file cannot be mapped, and is read whole.
    with open(path, 'rb') as f:
      mapped = f.read(2) == b'PK'
    found = torch.load(os.fspath(path), map_location='cpu', weights_only=True, mmap=mapped)
  except pickle.UnpicklingError as e:
    lines = [line.strip() for line in str(e).splitlines()]
    named = next((line[:200] for line in lines if 'GLOBAL' in line), None)
    state = 'holds more than tensors' if named else 'is damaged, or holds more than tensors'
    raise CheckpointError(f"'{path}' {state}: Python objects, which could run any program, are never loaded. Use a "
                          f"checkpoint of safetensors. ({named or 'it is not read as tensors alone'})") from e
  except Exception as e:  # torch raises many kinds for damaged and for very old files
    raise _unreadable(path, e) from e
  strange = (f'is a {type(found).__name__}, not a dictionary of tensors' if not isinstance(found, dict) else
             next((f"has {str(n)[:80]!r}, a {type(t).__name__}, among its tensors" for n, t in found.items()
                   if not isinstance(n, str) or not isinstance(t, torch.Tensor)), None))
  if strange or not found:
    raise CheckpointError(f"'{path}' {strange or 'holds no tensors'}; a checkpoint's pytorch_model.bin is the model's "
                          'state_dict alone.')
  return dict(found)


def _unreadable(path, error: Exception) -> CheckpointError:
  return CheckpointError(f"'{path}' is truncated, damaged or not a PyTorch file ({first_line(error)}); copy it again.")

