"""Digests of what a job depends on, so that a change between a stop and a restart is noticed."""

import concurrent.futures
import hashlib
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np

from specdec_jax.model import Model


def of_examples(examples: Iterable) -> str:
  """Of all that the examples hold, in their order."""
  seen = hashlib.sha256()
  for example in examples:
    of_output = (example.target_prefix, example.targets, example.label)
    for part in (example.id, example.text, example.reference, *(example.tokens or ()),
                 *(of_output if any(of_output) else ())):
      seen.update(f'{type(part).__name__} {part}\0'.encode('utf-8', 'surrogatepass'))
  return seen.hexdigest()


def of_pairs(pairs: Iterable) -> str:
  """Of the ids of training pairs, (source, target), in their order."""
  seen = hashlib.sha256()
  for pair in pairs:
    for ids in pair:
      array = np.asarray(ids, np.int32)
      seen.update(len(array).to_bytes(8, 'little') + array.tobytes())
  return seen.hexdigest()


def of_weights(tree: Any) -> str:
  """Of every number in a model or drafter, its shape and type, and of the models' sizes and vocabularies.

  The same on every device and mesh. Each byte is read once, by several threads: about a second a gigabyte.

  Args:
    tree: a pytree of arrays, such as a Model or a drafter; None has a digest too.
  """
  models = [m for m in jax.tree.leaves(tree, is_leaf=_is_model) if _is_model(m)]
  seen = hashlib.sha256()
  for model in models:
    vocabulary = None if model.vocabulary is None else model.vocabulary.digest
    seen.update(f'{model.config!r} {vocabulary}\n'.encode())
  named, _ = jax.tree_util.tree_flatten_with_path(tree)
  with concurrent.futures.ThreadPoolExecutor(4) as threads:
    for (path, leaf), digest in zip(named, threads.map(_of_array, (leaf for _, leaf in named))):
      seen.update(f'{jax.tree_util.keystr(path)} {np.shape(leaf)} {digest}\n'.encode())
  return seen.hexdigest()


def _is_model(x) -> bool:
  return isinstance(x, Model)


def _of_array(leaf) -> str:
  array = np.ascontiguousarray(leaf)
  return f'{array.dtype} {hashlib.blake2b(array.reshape(-1).view(np.uint8), digest_size=16).hexdigest()}'
