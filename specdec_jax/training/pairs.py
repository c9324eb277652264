"""Token pairs to train on: from parallel text, or from the texts of a target."""

from collections.abc import Iterable, Sequence

import numpy as np

from specdec_jax import arguments
from specdec_jax.data import tokenizer
from specdec_jax.data.examples import Field, read_examples, texts_of
from specdec_jax.data.lines import BadLine, decoded, json_object, raw_lines
from specdec_jax.data.tasks import iterate_task, task_examples
from specdec_jax.data.tokenizer import Tokenizer
from specdec_jax.errors import InputError
from specdec_jax.paths import resolve
from specdec_jax.training.batches import Pair

_FIELD = arguments.text_of(('reference', 'text'))


@arguments.checked(path=arguments.path, vocabulary=tokenizer.checked)
def read_pairs(path: str, vocabulary: Tokenizer, text_field: Field | None = None,
               reference_field: Field = 1) -> list[Pair]:
  """Source and target ids, both ending in EOS, of a file that `data.examples` reads.

  By default the first two columns of a TSV file; for JSON lines name the fields.
  """
  examples = list(read_examples(path, text_field, reference_field))
  ids = lambda text: vocabulary.encode(text) + [vocabulary.eos_id]
  return [(ids(source), ids(target)) for source, target in zip(
      texts_of(examples, 'text', 'read_pairs'), texts_of(examples, 'reference', 'read_pairs'))]


@arguments.checked(examples=arguments.iterable, vocabulary=tokenizer.checked, field=_FIELD, pack=arguments.at_least(0),
                   seed=arguments.at_least(0))
def text_pairs(examples: Iterable, vocabulary, field: str = 'text', pack: int = 0,
               seed: int = 0) -> list[Pair]:
  """Texts for a decoder-only model: no source, and ids ending in EOS.

  Args:
    examples: of `data.examples.Example`.
    vocabulary: of the model.
    field: 'text' (a file's texts) or 'reference' (a task's targets).
    pack: put whole texts, shuffled by `seed`, one after another into rows of up to so many tokens, so
      that little is padding; longer texts are left out. 0 leaves every text a row.
  """
  rows = [np.array(vocabulary.encode(text) + [vocabulary.eos_id], np.int32)
          for text in texts_of(examples, field, 'text_pairs')]
  return [([], row) for row in (_pack(rows, pack, seed) if pack else rows)]


def _pack(rows, length, seed):
  """Each row goes after the fullest of a few open ones that it fits."""
  packed, open_rows = [], []  # lists of rows, and (tokens, list) of those not yet full
  for i in np.random.default_rng(seed).permutation(len(rows)):
    if len(rows[i]) > length:
      continue
    fits = [o for o in open_rows if o[0] + len(rows[i]) <= length]
    if fits:
      best = max(fits, key=lambda o: o[0])
    else:
      best = [0, []]
      packed.append(best[1])
      open_rows.append(best)
    best[0] += len(rows[i])
    best[1].append(rows[i])
    if len(open_rows) > 16:
      open_rows.remove(max(open_rows, key=lambda o: o[0]))
  return [np.concatenate(members) for members in packed]


@arguments.checked(path=arguments.path, vocabulary=tokenizer.checked)
def read_predictions(path: str, vocabulary: Tokenizer) -> list[Pair]:
  """Inputs and the target's own tokens from the predictions of a decode run.

  For distillation: the ids that the target emitted, not its text tokenised again. Every sample of an input is a pair,
  and a target prefix stands before what went on from it. Texts that did not end in EOS are left out, so that no
  cut-off text is learnt.
  """
  pairs, path = [], resolve(path)
  for number, line in raw_lines(path, 'predictions'):
    try:
      record = json_object(decoded(line))
      prefix = record.get('target_prefix', [])
      prefix = vocabulary.encode(prefix) if isinstance(prefix, str) else prefix
      for sample in record.get('samples', [record]):
        if sample['status'] == 'EOS':
          pairs.append((vocabulary.encode(record['input']) + [vocabulary.eos_id], prefix + sample['tokens']))
    except (BadLine, KeyError, TypeError) as e:
      raise InputError(f"'{path}', line {number + 1}: not a prediction of a decode run ({e}).") from None
  return pairs


_OF_TASKS = {name: check for name, check in arguments.declared(task_examples).items()
             if name not in ('vocabulary', 'target_prefix')}


@arguments.checked(**_OF_TASKS, vocabulary=tokenizer.checked, max_source_len=arguments.at_least(1),
                   max_target_len=arguments.at_least(1))
def task_pairs(name: str, vocabulary: Tokenizer, split: str = 'train', module: str | None = None,
               limit: int | None = None, files=None, data_dir: str | None = None,
               max_source_len: int = 512, max_target_len: int = 512) -> list[Pair]:
  """Source and target ids of a seqio task, both ending in EOS, cut to so many tokens as T5 does.

  The whole split is held in memory, 4 bytes a token: 2 GB for WMT14's 4.5M pairs.

  Args:
    name, split, module, limit, files, data_dir: as in `data.tasks.task_examples`.
    vocabulary: of the model.
    max_source_len, max_target_len: in tokens, EOS counted.
  """
  def ids(text, longest):
    return np.array(vocabulary.encode(text)[:longest - 1] + [vocabulary.eos_id], np.int32)

  return [(ids(e.text, max_source_len), ids(e.reference, max_target_len))
          for e in iterate_task(name, split, module, limit, vocabulary.path, files, data_dir)]


def concatenate(sources: Sequence[list[Pair]]) -> list[Pair]:
  """One training set out of several."""
  return [pair for source in sources for pair in source]
