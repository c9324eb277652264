"""What a checkpoint or model directory is, as text and as JSON, without reading its weights."""

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

from etils import epath

from specdec_jax.checkpoints import formats, source as source_lib, storage as storage_lib
from specdec_jax.checkpoints.description import (
    ARCHITECTURES,
    WEIGHTS,
    Config,
    Tokenizer,
    architecture_of,
    find_vocabulary,
    read_config,
)
from specdec_jax.checkpoints.directory import check_files
from specdec_jax.checkpoints.readers import Leaf
from specdec_jax.data.vocabulary import Vocabulary
from specdec_jax.errors import CheckpointError, UserError
from specdec_jax.files import checksums
from specdec_jax.files.locations import existing_directory
from specdec_jax.models.known import names_like
from specdec_jax.models.parameters import check_parameters

_BYTES = {'int8': 1, 'bfloat16': 2, 'float16': 2, 'float32': 4, 'float64': 8}


def describe(path: str | os.PathLike, verify: bool = False,
             progress: Callable[[int, int], None] = lambda done, total: None) -> dict[str, Any]:
  """Describes a model directory, or a checkpoint that could be imported.

  Args:
    path: local or gs://, or 'embedded:ende/target'.
    verify: compare the checksums of a model directory, for which its files are read.
    progress: called with the bytes read of them and in all.

  Returns:
    What `json.dumps` takes: path, format, architecture, configuration (of the model that is there, or that an import
    would make), sizes_of (names of gin/models with these sizes), parameters (their number), bytes, dtypes
    ({name: parameters}), vocabulary, checksums ('match', 'not compared', ...), assumed (sentences of an import) and
    problems (why it cannot be loaded or imported as it is; empty where it can).

  Raises:
    CheckpointError: there is neither a model directory nor a checkpoint.
  """
  directory = existing_directory(path)
  kind = formats.guess_format(directory)
  if kind is None or kind == 'tensorflow':
    raise CheckpointError(f"'{directory}' is {formats.NAMES['tensorflow']}." if kind else
                          f"'{directory}' holds no checkpoint{formats.nearby(directory)}.")
  found: dict[str, Any] = {'path': os.fspath(directory), 'format': kind, 'assumed': [], 'problems': []}
  try:
    found |= _of_model(directory, verify, progress) if kind == 'model' else _of_checkpoint(directory, kind)
  except UserError as e:
    found['problems'].append(str(e))
  return found


def config_of(found: dict[str, Any]) -> Config | None:
  """The configuration of a description, or None where it has none."""
  if 'configuration' not in found:
    return None
  kind: Any = ARCHITECTURES[found['architecture']]
  return kind(**found['configuration'])


def text(found: dict[str, Any]) -> str:
  """A description of `describe` for people, a line for each thing."""
  lines = [f"{found['path']}: {formats.NAMES[found['format']].split(',')[0]}"]
  config = found.get('configuration')
  if config:
    lines.append(f"architecture  {found['architecture']}: "
                 + ', '.join(f'{name} {_shown(value)}' for name, value in config.items()))
    lines += [f"sizes of      {', '.join(found['sizes_of'])}"] if found['sizes_of'] else []
  if 'parameters' in found:
    dtypes = ', '.join(f'{count:,} in {dtype}' for dtype, count in found['dtypes'].items())
    lines.append(f"weights       {found['parameters']:,} parameters, {found['bytes'] / 1e9:.3f} GB ({dtypes})")
  if 'vocabulary' in found:
    vocabulary = found['vocabulary']
    lines.append('vocabulary    ' + (
        f"{vocabulary['pieces']:,} pieces, ends a text with id {vocabulary['eos_id']}, {vocabulary['extra_ids']} "
        f"sentinels, SHA-256 {vocabulary['sha256'][:12]}..." if vocabulary else 'none'))
  if 'checksums' in found:
    lines.append(f"checksums     {found['checksums']}")
  lines += [f'assumed       {sentence}' for sentence in found['assumed']]
  lines += [f'problem       {problem}' for problem in found['problems']]
  return '\n'.join(lines)


def _of_model(directory: epath.Path, verify: bool, progress: Callable[[int, int], None]) -> dict[str, Any]:
  config, storage = read_config(directory)
  problems = []
  found = {**_of_config(config), 'storage': storage, 'vocabulary': _of_vocabulary(find_vocabulary(directory, config))}
  try:
    parts = check_files(directory, verify, progress)
    leaves = storage_lib.leaves(directory / WEIGHTS, parts)
    found |= _of_leaves(leaves)
    check_parameters({name: leaf.shape for name, leaf in leaves.items()}, config, os.fspath(directory))
  except CheckpointError as e:
    problems.append(str(e))
  state = 'there are none, only sizes of the weights'
  if checksums.is_sealed(directory):
    state = 'not compared' if not verify else 'differ' if problems else 'match'
  return {**found, 'checksums': state, 'problems': problems}


def _of_checkpoint(directory: epath.Path, kind: str) -> dict[str, Any]:
  reader = formats.open_checkpoint(directory, kind)
  found = _of_leaves(reader.leaves)
  try:
    source = source_lib.prepare(directory, kind)
  except UserError as e:
    config = _of_config(reader.config) if reader.config else {}
    return {**config, **found, 'assumed': list(reader.notes), 'problems': [str(e)]}
  return {**_of_config(source.config), **found, 'storage': source.storage,
          'vocabulary': _of_vocabulary(source.vocabulary), 'assumed': source.assumed}


def _of_config(config: Config) -> dict[str, Any]:
  return {'architecture': architecture_of(config), 'configuration': dataclasses.asdict(config),
          'sizes_of': names_like(config)}


def _of_leaves(leaves: dict[str, Leaf]) -> dict[str, Any]:
  dtypes: Counter[str] = Counter()
  for leaf in leaves.values():
    dtypes[leaf.dtype] += math.prod(leaf.shape)
  return {'parameters': dtypes.total(), 'dtypes': dict(dtypes),
          'bytes': sum(count * _BYTES.get(dtype, 4) for dtype, count in dtypes.items())}


def _of_vocabulary(vocabulary: Tokenizer | None) -> dict[str, Any] | None:
  if vocabulary is None:
    return None
  extra_ids = vocabulary.extra_ids if isinstance(vocabulary, Vocabulary) else 0
  return {'pieces': vocabulary.size - extra_ids, 'extra_ids': extra_ids, 'eos_id': vocabulary.eos_id,
          'sha256': vocabulary.digest, 'path': vocabulary.path}


def _shown(value: Any) -> str:
  return '/'.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
