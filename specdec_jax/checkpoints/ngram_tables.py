"""N-gram tables as directories: counts.npz, ngram.json, and files.json over both."""

import io
import json
import os
import zipfile
import zlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from etils import epath

from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files import checksums, json_files
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.files.reading import read_bytes
from specdec_jax.files.replacing import only

_DESCRIPTION, _COUNTS = 'ngram.json', 'counts.npz'
_ARRAYS = ('unigram', 'contexts', 'successors', 'counts')
_MOST_BYTES = 4 << 30


def save_ngram(table: NGramDrafter, path: str | os.PathLike, overwrite: bool = False) -> None:
  """Writes a directory (local or gs://) for `load_ngram`.

  Args:
    table: what to write.
    path: a directory that does not exist.
    overwrite: replace an existing table.
  """
  with new_directory(path, _not_of_a_table if overwrite else None) as directory:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {name: _small(getattr(table, name)) for name in _ARRAYS}
    np.savez_compressed(buffer, **arrays)
    (directory / _COUNTS).write_bytes(buffer.getvalue())
    fields = {'kind': 'ngram', 'order': table.order, 'num_tokens': len(table.unigram),
              'successors': table.successors.shape[1], 'start_id': table.start_id,
              'vocabulary': table.digest, 'pieces': table.identity, 'tokens': table.num_counted}
    (directory / _DESCRIPTION).write_text(json.dumps(fields, indent=1) + '\n')
    checksums.seal(directory)


def load_ngram(path: str | os.PathLike, order: int | None = None) -> NGramDrafter:
  """Reads what `save_ngram` wrote, or a shipped table such as 'embedded:ende/bigram'.

  Args:
    path: a local or gs:// directory.
    order: 1 takes the unigram distribution out of a bigram table too; by default the table's own.

  Raises:
    CheckpointError: no table there, or it is damaged.
    SettingError: a unigram table where order is 2.
  """
  directory = absolute(path)
  if not (directory / _DESCRIPTION).exists():
    raise CheckpointError(f"No n-gram table at '{directory}' (it has no {_DESCRIPTION}); fit one with "
                          'gin/runs/fit_ngram.gin or NGramDrafter.fit.')
  if checksums.is_sealed(directory):
    checksums.check(directory)
  table = _read(directory)
  if order is None or order == table.order:
    return table
  if order != 1:
    raise SettingError(f"'{path}' is a {table.name}, not one of order {order}; fit one, or draft with "
                       'gin/drafters/unigram.gin.')
  none = table.successors[:, :0]
  return table.replace(order=1, successors=none, counts=none)


def _not_of_a_table(directory: epath.Path) -> str | None:
  """See `replacing.Foreign`."""
  return only({_DESCRIPTION, _COUNTS, checksums.NAME})(directory) or (
      None if (directory / _DESCRIPTION).exists() else 'is no n-gram table')


def _read(directory: epath.Path) -> NGramDrafter:
  fields = json_files.read_json(directory / _DESCRIPTION, 'description of the n-gram table')
  try:
    content = read_bytes(directory / _COUNTS, 'counts of the n-gram table', _MOST_BYTES, CheckpointError)
    with np.load(io.BytesIO(content)) as arrays:
      unigram, contexts, successors, counts = (jnp.asarray(_ids(arrays[name])) for name in _ARRAYS)
    order, start, digest = fields['order'], fields['start_id'], fields['vocabulary']
    size, kept, identity = fields['num_tokens'], fields['successors'], fields.get('pieces', '')
    shapes = [a.shape for a in (unigram, contexts, successors, counts)]
    if shapes != [(size,), (size,), (size, kept), (size, kept)]:
      raise ValueError(f'its counts are {shapes}')
    if order not in (1, 2) or type(start) is not int or not 0 <= start < size or not isinstance(digest + identity, str):
      raise ValueError(f'its order is {order!r:.40}, its start_id {start!r:.40}')
  except CheckpointError:
    raise
  except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as e:
    raise CheckpointError(f"The n-gram table at '{directory}' is damaged ({e}); copy or fit it again.") from e
  return NGramDrafter(unigram=unigram, contexts=contexts, successors=successors, counts=counts, order=order,
                      start_id=start, digest=digest, identity=identity)


def _ids(array: np.ndarray) -> np.ndarray:
  """Counts or ids as int32."""
  if not np.issubdtype(array.dtype, np.integer) or (array.size and not 0 <= array.min() <= array.max() < 2 ** 31):
    raise ValueError(f'it has counts of {array.dtype} that are no whole numbers from 0 to 2 ** 31')
  return array.astype(np.int32)


def _small(array) -> np.ndarray:
  """Non-negative counts or ids in the smallest type that holds them."""
  array = np.asarray(array)
  return array.astype(np.min_scalar_type(int(array.max(initial=0))))
