"""N-gram tables as directories: counts.npz and ngram.json."""

import io
import json
import os
import zipfile

import jax.numpy as jnp
import numpy as np

from specdec_jax.drafters.ngram import NGramDrafter
from specdec_jax.errors import CheckpointError, SettingError
from specdec_jax.files.directories import new_directory
from specdec_jax.files.locations import absolute
from specdec_jax.files.replacing import only

_DESCRIPTION, _COUNTS = 'ngram.json', 'counts.npz'
_ARRAYS = ('unigram', 'contexts', 'successors', 'counts')


def save_ngram(table: NGramDrafter, path: str | os.PathLike, overwrite: bool = False) -> None:
  """Writes a directory (local or gs://) for `load_ngram`.

  Args:
    table: what to write.
    path: a directory that does not exist.
    overwrite: replace an existing table.
  """
  with new_directory(path, _not_of_a_table if overwrite else None) as directory:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **{name: _small(getattr(table, name)) for name in _ARRAYS})
    (directory / _COUNTS).write_bytes(buffer.getvalue())
    fields = {'kind': 'ngram', 'order': table.order, 'num_tokens': len(table.unigram),
              'successors': table.successors.shape[1], 'start_id': table.start_id,
              'vocabulary': table.digest, 'tokens': table.num_counted}
    (directory / _DESCRIPTION).write_text(json.dumps(fields, indent=1) + '\n')


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
  table = _read(directory)
  if order is None or order == table.order:
    return table
  if order != 1:
    raise SettingError(f"'{path}' is a {table.name}, not one of order {order}; fit one, or draft with "
                       'gin/drafters/unigram.gin.')
  none = table.successors[:, :0]
  return table.replace(order=1, successors=none, counts=none)


def _not_of_a_table(directory) -> str | None:
  """See `replacing.Foreign`."""
  return only({_DESCRIPTION, _COUNTS})(directory) or (
      None if (directory / _DESCRIPTION).exists() else 'is no n-gram table')


def _read(directory) -> NGramDrafter:
  try:
    fields = json.loads((directory / _DESCRIPTION).read_text())
    with np.load(io.BytesIO((directory / _COUNTS).read_bytes())) as arrays:
      counted = [jnp.asarray(arrays[name].astype(np.int32)) for name in _ARRAYS]
    table = NGramDrafter(*counted, order=fields['order'], start_id=fields['start_id'],
                         digest=fields['vocabulary'])
    if table.successors.shape != (fields['num_tokens'], fields['successors']):
      raise ValueError(f'its counts are {list(table.successors.shape)}')
  except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as e:
    raise CheckpointError(f"The n-gram table at '{directory}' is damaged ({e}); copy or fit it "
                          'again.') from e
  return table


def _small(array) -> np.ndarray:
  """Non-negative counts or ids in the smallest type that holds them."""
  array = np.asarray(array)
  return array.astype(np.min_scalar_type(int(array.max(initial=0))))
