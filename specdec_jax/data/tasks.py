"""Inputs from a seqio task or mixture. TensorFlow is imported when a task is read, not before."""

import importlib
import itertools
import os

from specdec_jax.data.examples import Example


def task_examples(name: str, split: str = 'test', module: str | None = None,
                  limit: int | None = None) -> list[Example]:
  """The inputs of a seqio task or mixture as text, in the task's own order, with its targets.

  Text is what the task's tokenizer was given (`inputs_pretokenized`, prefix and all), or
  else its token ids decoded with the task's vocabulary: the model's own vocabulary
  encodes it again. Nothing is cut to a length.

  Args:
    name: as registered with seqio.
    split: such as 'validation'.
    module: imported first, since importing it registers the task, such as 't5.data.mixtures'.
    limit: read no more than this many.

  Returns:
    Examples; ids are the task's `id` where it has one, else places in the task from 0.

  Raises:
    ImportError: seqio or the module cannot be imported.
    ValueError: no such task or split, or no inputs in it.
  """
  seqio = _import_seqio()
  if module is not None:
    try:
      importlib.import_module(module)
    except ImportError as e:
      raise ImportError(f"Module '{module}', to register the seqio task '{name}', "
                        f'cannot be imported: {e}.') from e
  if name not in {*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()}:
    raise ValueError(f"No seqio task or mixture '{name}' is registered; name the module that "
                     'registers it with module.')
  task = seqio.get_mixture_or_task(name)
  if split not in task.splits:
    raise ValueError(f"seqio task '{name}' has no split '{split}'; it has "
                     f"{', '.join(sorted(task.splits))}.")
  dataset = task.get_dataset(None, split, shuffle=False, seed=0)
  records = itertools.islice(dataset.as_numpy_iterator(), limit)
  return [_example(task, place, record) for place, record in enumerate(records)]


def _import_seqio():
  os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')
  try:
    import seqio
    import tensorflow as tf
  except ImportError as e:
    raise ImportError(f'seqio tasks need seqio and TensorFlow: pip install seqio ({e}).') from e
  tf.config.set_visible_devices([], 'GPU')  # its memory is for JAX
  return seqio


def _example(task, place, record):
  text, reference = (_text(task, record, feature) for feature in ('inputs', 'targets'))
  if text is None:
    raise ValueError(f"seqio task '{task.name}' has no 'inputs'; it has "
                     f"{', '.join(sorted(record))}.")
  example_id = record.get('id', place)
  if isinstance(example_id, bytes):
    return Example(example_id.decode('utf-8'), text, reference)
  return Example(int(example_id), text, reference)


def _text(task, record, feature):
  """A feature's text, None where the record lacks it."""
  text = record.get(f'{feature}_pretokenized', record.get(feature))
  if text is None or isinstance(text, bytes):
    return text and text.decode('utf-8')
  return task.output_features[feature].vocabulary.decode(text.tolist())
