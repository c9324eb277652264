"""Inputs from a seqio task or mixture. TensorFlow is imported when a task is read, not before."""

import contextlib
import dataclasses
import importlib
import itertools
import re
from collections.abc import Iterator, Mapping

from specdec_jax import arguments, paths
from specdec_jax.data.examples import Example
from specdec_jax.data.records import read_records
from specdec_jax.data.seqio_start import import_seqio
from specdec_jax.errors import DependencyError, InputError, UserError
from specdec_jax.files.reading import size_of
from specdec_jax.notes import note

_FILES = arguments.instance(Mapping, "{split: FILE}, such as {'test': 'test.tsv'}")


@arguments.checked(
    name=arguments.text, split=arguments.text, module=arguments.optional(arguments.text),
    limit=arguments.optional(arguments.at_least(1)), vocabulary=arguments.optional(arguments.path),
    files=arguments.optional(_FILES), data_dir=arguments.optional(arguments.path),
    target_prefix=arguments.optional(arguments.text))
def task_examples(name: str, split: str = 'test', module: str | None = None,
                  limit: int | None = None, vocabulary: str | None = None,
                  files: Mapping[str, str] | None = None, data_dir: str | None = None,
                  target_prefix: str | None = None) -> list[Example]:
  """The inputs of a seqio task or mixture as text, in the task's own order, with its targets.

  Text is what the task's tokenizer was given (`inputs_pretokenized`, prefix and all), or
  else its token ids decoded with the task's vocabulary: the model's own vocabulary
  encodes it again. Nothing is cut to a length.

  Args:
    name: as registered with seqio.
    split: such as 'validation'.
    module: imported first, since importing it registers the task, such as
      'specdec_jax.data.t5_tasks' or 't5.data.mixtures'.
    limit: read no more than this many.
    vocabulary: SentencePiece file in place of the task's own (of a task, not a mixture).
    files: split -> JSON-lines file, or TSV file with a header, whose fields are those of the
      task's data set; read in its place (of a task, not a mixture).
    data_dir: where TFDS keeps its data sets, if not where it does by default.
    target_prefix: the feature that an encoder-decoder's output begins with, such as 'targets' where T5X would have
      prompt_with_targets; by default 'target_prefix' in those examples that have it.

  Returns:
    Examples; ids are the task's `id` where it has one, else places in the task from 0.

  Raises:
    DependencyError: seqio or the module cannot be imported.
    InputError: no such task or split, or no inputs in it.
  """
  return list(iterate_task(name, split, module, limit, vocabulary, files, data_dir, target_prefix))


def iterate_task(name, split='test', module=None, limit=None, vocabulary=None, files=None,
                 data_dir=None, target_prefix=None) -> Iterator[Example]:
  """`task_examples` one at a time."""
  seqio = import_seqio()
  if module is not None:
    try:
      importlib.import_module(module)
    except ImportError as e:
      raise DependencyError(f"Module '{module}', to register the seqio task '{name}', "
                        f'cannot be imported: {e}.') from e
  if name not in {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}:
    raise InputError(f"No seqio task or mixture '{name}' is registered; name the module that "
                     'registers it with module.')
  if data_dir is not None:
    seqio.set_tfds_data_dir_override(paths.resolve(data_dir, 'task_examples.data_dir'))
  task = seqio.get_mixture_or_task(name)
  if vocabulary or files:
    task = _changed(seqio, task, vocabulary, files)
  if split not in task.splits:
    raise InputError(f"seqio task '{name}' has no split '{split}'; it has "
                     f"{', '.join(sorted(task.splits))}.")
  try:
    with _told_of_downloads(seqio, task, split):
      dataset = task.get_dataset(None, split, shuffle=False, seed=0)
  except KeyError as e:
    field = re.findall(r"'(\w+)'", str(e))[-1]  # TensorFlow puts its own words around a KeyError
    raise InputError(f"seqio task '{name}' needs a field '{field}' that its data does not have.") from e
  except UserError:
    raise
  except ValueError as e:  # of TFDS: a data set or split that it does not know
    raise InputError(f"seqio task '{name}': {str(e).splitlines()[0]}") from e
  records = itertools.islice(dataset.as_numpy_iterator(), limit)
  for place, record in enumerate(records):
    yield _example(task, place, record, target_prefix)


@contextlib.contextmanager
def _told_of_downloads(seqio, task, split: str) -> Iterator[None]:
  """Says what TFDS has to fetch before it does, and what to do where it cannot."""
  absent = []
  for part in seqio.get_subtasks(task):
    if isinstance(part.source, seqio.TfdsDataSource):
      builder = part.source.tfds_dataset.builder
      if not builder.is_prepared():
        absent.append(builder)
  mend = (f"to read a file in its place set task_examples.files = {{'{split}': FILE}}, or task_examples.data_dir to "
          'where TFDS has the data')
  for builder in absent:
    note(f"'{builder.info.full_name}' is not in {builder.data_dir}: TFDS fetches and prepares all of it, the training "
         f'archives too, which may take long; {mend}')
  try:
    yield
  except Exception as e:
    if not absent or isinstance(e, KeyError):
      raise
    names = ', '.join(f"'{builder.info.full_name}'" for builder in absent)
    reason = ' '.join(str(e).split())[:300] or type(e).__name__
    raise InputError(f'TFDS could not prepare {names} ({reason}); {mend}.') from e


def _changed(seqio, task, vocabulary, files):
  """The task with another vocabulary or other data."""
  if not isinstance(task, seqio.Task):
    raise InputError(f"'{task.name}' is a seqio mixture; vocabulary and files are for tasks.")
  changes = {}
  if vocabulary:
    size_of(vocabulary, 'SentencePiece file')
    pieces = seqio.SentencePieceVocabulary(paths.resolve(vocabulary))
    changes['output_features'] = {
        name: dataclasses.replace(feature, vocabulary=pieces)
        for name, feature in task.output_features.items()}
  if files:
    changes['source'] = _file_source(seqio, files)
  return task.replace(**changes)


def _file_source(seqio, files):
  import tensorflow as tf

  def dataset(split, shuffle_files=False, seed=None):
    del shuffle_files, seed
    text = tf.TensorSpec((), tf.string)
    fields = next(read_records(files[split]))
    return tf.data.Dataset.from_generator(
        lambda: read_records(files[split]), output_signature=dict.fromkeys(fields, text))

  return seqio.FunctionDataSource(dataset, splits=tuple(files))


def _example(task, place, record, target_prefix):
  wanted = ('inputs', 'targets', target_prefix or 'target_prefix')
  text, reference, prefix = (_text(task, record, feature) for feature in wanted)
  missing = 'inputs' if text is None else target_prefix if prefix is None else None
  if missing:
    raise InputError(f"seqio task '{task.name}' has no '{missing}'; it has {', '.join(sorted(record))}.")
  example_id = record.get('id', place)
  if isinstance(example_id, bytes):
    return Example(example_id.decode('utf-8'), text, reference, target_prefix=prefix or None)
  return Example(int(example_id), text, reference, target_prefix=prefix or None)


def _text(task, record, feature):
  """A feature's text, None where the record lacks it."""
  text = record.get(f'{feature}_pretokenized', record.get(feature))
  if text is None or isinstance(text, bytes):
    return None if text is None else text.decode('utf-8')
  return task.output_features[feature].vocabulary.decode(text.tolist())
