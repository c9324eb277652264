"""pytorch_model.bin, where torch is installed; the file is mapped, not read whole."""

import os

import numpy as np

from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.checkpoints.storage import dtype_of, first_line
from specdec_jax.errors import CheckpointError


class TorchFile:
  """One file; an `lm_head` that is the embedding itself (tied) is left out.

  Attributes:
    leaves: {name in the file: Leaf}.
  """

  def __init__(self, path: os.PathLike):
    try:
      import torch
    except ImportError:
      raise CheckpointError(
          f"'{path}' can only be read where torch is installed; install torch, or convert the "
          "checkpoint to safetensors with transformers' save_pretrained.") from None
    try:
      tensors = torch.load(os.fspath(path), map_location='cpu', weights_only=True, mmap=True)
    except Exception as e:  # torch raises many kinds for damaged and for very old files
      raise CheckpointError(f"'{path}' is truncated, or older than torch 1.6's format. "
                            f'({first_line(e)})') from e
    head, shared = tensors.get('lm_head.weight'), tensors.get('shared.weight')
    if head is not None and shared is not None and head.data_ptr() == shared.data_ptr():
      tensors.pop('lm_head.weight')
    self._tensors = tensors
    self.leaves = {name: Leaf(tuple(t.shape), str(t.dtype).removeprefix('torch.'))
                   for name, t in tensors.items()}

  def read(self, name: str) -> np.ndarray:
    tensor = self._tensors[name].contiguous()
    if self.leaves[name].dtype == 'bfloat16':
      import torch
      return tensor.view(torch.int16).numpy().view(dtype_of('bfloat16'))
    return tensor.numpy()
